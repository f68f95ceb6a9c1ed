//! The allocator of instances' memory and stacks, and wasmtime's settings for it. Compiled code does not depend on
//! the allocator.
//!
//! A used slot of the pool is reset page by page if the kernel reports the written pages (`PAGEMAP_SCAN`, Linux
//! 6.7): three to four times faster than a new mapping. A part of the slot then stays resident; other written pages
//! are mapped again. wasmtime releases a slot only with its component, so that the bounds fit the memory that small
//! tools touch.

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::threads::permits::MAX_GUESTS;
use haft_core::limit::Limits;

/// Size in bytes of a guest's stack: four times wasmtime's default, for interpreters and recursive parsers, and
/// since quickly compiled code takes twice as much of it.
pub(crate) const GUEST_STACK: usize = 2 << 20;

/// Stack that a guest and haft's functions for it run on.
const ASYNC_STACK: usize = GUEST_STACK + (1 << 20);

/// Maximum number of instances: those of running guests, and nearly as many prewarmed or idle ones, or ones that
/// are not dropped yet. From 128 on wasmtime at first gives separate slots to each thread, and in time all of them
/// hold memory; below, it prefers a used slot.
const POOL: u32 = 120;

/// Maximum number of idle instances: the rest of the pool, so that every call finds a slot.
pub(crate) const MAX_IDLE: usize = POOL as usize - MAX_GUESTS;

/// Average number of core instances of a component, as with an interpreter.
const CORE_INSTANCES: u32 = 32;

/// Maximum number of core instances of one component: with a complete Python about 30.
const MAX_CORE_INSTANCES: u32 = 128;

/// Maximum number of memories of one component; nearly all have one.
const MAX_MEMORIES: u32 = 8;

/// Maximum number of entries of one table: CPython has 20,000 functions.
const MAX_TABLE: usize = 100_000;

/// Maximum number of bytes of wasmtime's data about one instance.
const MAX_METADATA: usize = 4 << 20;

/// Size in bytes of a used slot that stays resident: the memory that small tools touch. Measured: 50 to 150 KiB,
/// 210 with an argument of 100 KB. Memory beyond is mapped again, with a page fault for each 4 KiB.
const WARM: usize = 512 << 10;

/// Size in bytes of a used stack that stays resident; without a bound, the most that any guest ever used.
const WARM_STACK: usize = 64 << 10;

/// Number of unused slots with resident memory.
const WARM_SLOTS: u32 = 16;

pub(crate) fn config(pooling: bool) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).max_wasm_stack(GUEST_STACK).async_stack_size(ASYNC_STACK);
    // Otherwise a stack in the pool keeps every page that a guest ever used.
    config.async_stack_zeroing(true);
    if pooling {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    config
}

/// Returns a pool with this number of slots, each of the maximum size of a component. It reserves address space for
/// all, and memory for touched pages only.
fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(POOL)
        .total_stacks(POOL)
        .total_memories(POOL)
        .total_core_instances(POOL * CORE_INSTANCES)
        .total_tables(POOL * CORE_INSTANCES)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_tables_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .table_elements(MAX_TABLE)
        .max_memory_size(usize::try_from(Limits::MAX_MEMORY).unwrap_or(usize::MAX))
        .max_component_instance_size(MAX_METADATA)
        .max_core_instance_size(MAX_METADATA)
        .linear_memory_keep_resident(WARM)
        .table_keep_resident(WARM)
        .async_stack_keep_resident(WARM_STACK)
        .max_unused_warm_slots(WARM_SLOTS)
        .pagemap_scan(Enabled::Auto);
    pool
}
