//! Where the instances of components get their memory and stacks, and the settings of wasmtime that go
//! with it. Whichever it is, the code that a component is compiled to is the same.
//!
//! A slot of the pool that was used is put back to its first state page by page, where the kernel can tell which pages were
//! written (`PAGEMAP_SCAN`, Linux 6.7): three to four times faster than mapping anew. So much of a slot stays resident with
//! it; what a guest wrote beyond is mapped anew. wasmtime gives a slot back only with its component, so the bounds are what
//! small tools touch, and not more.

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::threads::permits::MAX_GUESTS;
use haft_core::limit::Limits;

/// Stack of a guest: four times wasmtime's default, for interpreters and recursive parsers, and since code that was
/// compiled quickly takes twice as much of it.
pub(crate) const GUEST_STACK: usize = 2 << 20;

/// Stack that a guest and haft's functions for it run on.
const ASYNC_STACK: usize = GUEST_STACK + (1 << 20);

/// Instances at once: those of running guests, and nearly as many that are prewarmed, idle or not yet dropped. Of 128
/// and more wasmtime gives each thread slots of its own to begin with, and in time all of them were used and hold
/// memory; of fewer it takes one that was used before.
const POOL: u32 = 120;

/// Idle instances: what is left of the pool, so that every call finds room in it.
pub(crate) const MAX_IDLE: usize = POOL as usize - MAX_GUESTS;

/// Core instances of a component on average: as many as one with an interpreter inside has.
const CORE_INSTANCES: u32 = 32;

/// Core instances of one component: one with a whole Python inside has about 30.
const MAX_CORE_INSTANCES: u32 = 128;

/// Memories of one component; nearly all have one.
const MAX_MEMORIES: u32 = 8;

/// Entries of one table: CPython has 20,000 functions.
const MAX_TABLE: usize = 100_000;

/// Bytes that wasmtime needs to know about one instance.
const MAX_METADATA: usize = 4 << 20;

/// Bytes of a used slot that stay resident: all that a small tool touches. Measured: 50 to 150 KiB, 210 with
/// an argument of 100 KB. What a call touches beyond is mapped again, a page fault each 4 KiB.
const WARM: usize = 512 << 10;

/// Bytes of a used stack that stay resident; without a bound, all that any guest ever used of it.
const WARM_STACK: usize = 64 << 10;

/// Unused slots that keep their resident memory.
const WARM_SLOTS: u32 = 16;

/// The settings of an engine, whose instances have their memory from a pool or, each, mapped for it.
pub(crate) fn config(pooling: bool) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).max_wasm_stack(GUEST_STACK).async_stack_size(ASYNC_STACK);
    // Without it a stack in the pool keeps every page that a guest ever used of it.
    config.async_stack_zeroing(true);
    if pooling {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    }
    config
}

/// Room for so many instances, each as large as a component may be. Address space is reserved for all
/// of it, memory is used for what guests touch.
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
