//! Where the instances of components get their memory and stacks, and the settings of wasmtime that go
//! with it. Whichever it is, the code that a component is compiled to is the same.
//!
//! A slot that was used is put back to its first state, up to a bound that stays resident with it, and
//! is mapped anew beyond. What stays is held as long as the pool: wasmtime gives a slot back only with its
//! component. So the bounds are what small tools touch, and not more. There are two ways, and a pool for each:
//!
//! - **Page by page**, where the kernel can tell which pages were written (`PAGEMAP_SCAN`, Linux 6.7):
//!   three to four times faster than mapping anew, and few pages stay. wasmtime asks the kernel for no
//!   more than 32 stretches of written pages. An interpreter writes a little all over its memory: most of
//!   what it will write again is mapped anew, and copied at the first touch, in the middle of a call.
//! - **As a whole**: a copy of all it began with, a millisecond for a Python, made when the caller has
//!   its answer. From a slot's second use on no call meets a page that is not there. For instances made
//!   ahead of a call, which are few: what stays resident is all of the memory they begin with, until none of
//!   them is needed and the pool is dropped.

use wasmtime::component::Component;
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

/// Instances of a large memory that are made ahead, of all plugins together, where there is memory for as many.
const WHOLE_POOL: usize = 16;

/// Core instances of an average component.
const CORE_INSTANCES: u32 = 8;

/// Core instances of an average component with an interpreter inside.
const INTERPRETER_INSTANCES: u32 = 32;

/// Core instances of one component: one with a whole Python inside has about 30.
const MAX_CORE_INSTANCES: u32 = 128;

/// Memories of one component; nearly all have one.
const MAX_MEMORIES: u32 = 8;

/// Entries of one table: CPython has 20,000 functions.
const MAX_TABLE: usize = 100_000;

/// Bytes that wasmtime needs to know about one instance.
const MAX_METADATA: usize = 4 << 20;

/// Bytes of a used slot that stay resident: all that a small tool touches. Measured: 50 to 150 KiB, 210 with
/// an argument of 100 KB. What a call touches beyond is mapped anew, a page fault each 4 KiB.
const WARM: usize = 512 << 10;

/// Bytes of a used stack that stay resident; without a bound, all that any guest ever used of it.
const WARM_STACK: usize = 64 << 10;

/// Bytes of a used slot that stay resident where it is restored as a whole.
const WARM_WHOLE: usize = 16 << 20;

/// Unused slots that keep their resident memory.
const WARM_SLOTS: u32 = 16;

/// Bytes of a memory from which on it is worth being put back as a whole: what is beyond [`WARM`] of it is
/// mapped anew otherwise.
const LARGE: usize = 2 << 20;

/// A page of WebAssembly's.
const PAGE: u64 = 64 << 10;

/// The memory of an engine's instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryStrategy {
    /// Mapped for each.
    Mapped,
    /// From a pool for every guest at once, put back page by page.
    Pooled,
    /// From a pool for a few instances, put back as a whole. No more than so many bytes stay resident.
    PooledWhole(u64),
}

/// The settings of an engine.
pub(crate) fn config(memory: MemoryStrategy) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).max_wasm_stack(GUEST_STACK).async_stack_size(ASYNC_STACK);
    // Without it a stack in the pool keeps every page that a guest ever used of it.
    config.async_stack_zeroing(true);
    let pool = match memory {
        MemoryStrategy::Mapped => return config,
        MemoryStrategy::Pooled => pool(POOL, CORE_INSTANCES, WARM, Enabled::Auto),
        MemoryStrategy::PooledWhole(bytes) => {
            pool(whole_slots(bytes), INTERPRETER_INSTANCES, WARM_WHOLE, Enabled::No)
        }
    };
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// Slots of which each may keep [`WARM_WHOLE`] in so many bytes.
pub(crate) fn whole_slots(bytes: u64) -> u32 {
    let slots = usize::try_from(bytes).unwrap_or(usize::MAX) / WARM_WHOLE;
    u32::try_from(slots.min(WHOLE_POOL)).unwrap_or_default()
}

/// Whether an instance of a component begins with a memory that is worth being put back as a whole, and
/// is so to its end.
pub(crate) fn is_large(component: &Component) -> bool {
    usize::try_from(initial_memory(component)).is_ok_and(|bytes| (LARGE..=WARM_WHOLE).contains(&bytes))
}

/// Bytes that the largest memory of a component begins with.
pub(crate) fn initial_memory(component: &Component) -> u64 {
    let pages = component.resources_required().and_then(|required| required.max_initial_memory_size);
    pages.unwrap_or(0).saturating_mul(PAGE)
}

/// Room for so many instances, each as large as a component may be. Address space is reserved for all
/// of it, memory is used for what guests touch.
fn pool(count: u32, cores: u32, warm: usize, scan: Enabled) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(count)
        .total_stacks(count)
        .total_memories(count)
        .total_core_instances(count * cores)
        .total_tables(count * cores)
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_tables_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .table_elements(MAX_TABLE)
        .max_memory_size(usize::try_from(Limits::MAX_MEMORY).unwrap_or(usize::MAX))
        .max_component_instance_size(MAX_METADATA)
        .max_core_instance_size(MAX_METADATA)
        .linear_memory_keep_resident(warm)
        .table_keep_resident(WARM)
        .async_stack_keep_resident(WARM_STACK)
        .max_unused_warm_slots(WARM_SLOTS)
        .pagemap_scan(scan);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_the_memory_of_an_interpreter_is_large() {
        let engine = wasmtime::Engine::new(&config(MemoryStrategy::Mapped)).unwrap();
        let is = |pages: u32| {
            let text =
                format!("(component (core module $m (memory {pages})) (core instance (instantiate $m)))");
            is_large(&Component::new(&engine, wat::parse_str(text).unwrap()).unwrap())
        };
        assert_eq!([1, 31, 32, 96, 256, 257].map(is), [false, false, true, true, true, false]);
    }
}
