//! Where the guests of a plugin were when they ended, found out once for each way to end.

use std::borrow::Cow;
use std::collections::HashMap;

use wasmtime::WasmBacktrace;

use super::frame::Frame;
use super::symbolizer::Symbolizer;
use haft_core::sync::Lock;

/// Stacks of one plugin that are looked at: a component may be large, and a plugin can end as often as it is called.
const MAX_STACKS: usize = 64;

/// Frames of the author's that are told.
pub(crate) const MAX_FRAMES: usize = 12;

/// Where a guest was: offsets in what was compiled, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stack(Vec<usize>);

/// What is known of the stacks of one plugin's guests.
#[derive(Debug, Default)]
pub(crate) struct Symbols(Lock<HashMap<Stack, Vec<Frame>>>);

impl Stack {
    /// Where the guest of `error` was.
    pub(crate) fn of(error: &wasmtime::Error) -> Self {
        error.downcast_ref::<WasmBacktrace>().map_or_else(Self::default, Self::from)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The frames of the author's, innermost first.
    pub(crate) fn resolve(&self, symbolizer: &Symbolizer<'_>) -> Vec<Frame> {
        self.0.iter().flat_map(|offset| symbolizer.frames(*offset)).take(MAX_FRAMES).collect()
    }

    /// Every function under way, outermost first, by the name that is known of it.
    pub(crate) fn names(&self, symbolizer: &Symbolizer<'_>) -> Vec<String> {
        let names = |offset: &usize| {
            let frames = symbolizer.frames(*offset);
            let named: Vec<String> = frames.into_iter().map(|frame| frame.function).collect();
            let unnamed = || symbolizer.name(*offset).map_or_else(|| "(library)".to_owned(), Cow::into_owned);
            if named.is_empty() { vec![unnamed()] } else { named }
        };
        let mut all: Vec<String> = self.0.iter().flat_map(names).collect();
        all.reverse();
        // What has no name is one thing, however many functions of it call each other.
        all.dedup_by(|next, before| next == before && next == "(library)");
        all
    }
}

impl From<&WasmBacktrace> for Stack {
    fn from(backtrace: &WasmBacktrace) -> Self {
        Self(backtrace.frames().iter().filter_map(wasmtime::FrameInfo::module_offset).collect())
    }
}

impl Symbols {
    /// The frames of a stack; `read` gives the component's bytes, where they are still those that were compiled.
    pub(crate) fn frames(&self, stack: &Stack, read: impl FnOnce() -> Option<Vec<u8>>) -> Vec<Frame> {
        if let Some(frames) = self.0.lock().get(stack) {
            return frames.clone();
        }
        if stack.is_empty() || self.0.lock().len() >= MAX_STACKS {
            return Vec::new();
        }
        let frames = read().map(|bytes| stack.resolve(&Symbolizer::new(&bytes))).unwrap_or_default();
        self.0.lock().insert(stack.clone(), frames.clone());
        frames
    }
}
