//! What compiling one function takes.

use wasmparser::{FunctionBody, Operator};

use super::{CALL, CODE, Estimate, INDIRECT, LOCAL};

/// Bytes that compiling a function may take without being counted: some are compiled at a time, and what they take is
/// given back.
const USUAL: u64 = 16 << 20;

/// What is in a function.
#[derive(Default)]
struct Counts {
    calls: u64,
    indirect: u64,
    /// Places where control goes to or comes from.
    edges: u64,
    /// Writes to local variables.
    writes: u64,
}

/// Adds what compiling `body` takes. What cannot be read ends it: it is no component then.
pub(super) fn add(estimate: &mut Estimate, body: &FunctionBody<'_>) {
    let range = body.range();
    let bytes = range.end - range.start;
    let locals = locals(body);
    let counts = counts(body);
    estimate.add(CODE, bytes);
    estimate.add(LOCAL, locals);
    estimate.add(CALL, counts.calls);
    estimate.add(INDIRECT, counts.indirect);
    // Where control joins, each variable that was written may have become another.
    let joins = locals.min(counts.writes).saturating_mul(counts.edges);
    let work = 150 * bytes + 750 * counts.calls + 7000 * counts.indirect + 500 * counts.edges;
    estimate.at_once(work.saturating_add(joins.saturating_mul(300)).saturating_sub(USUAL));
}

fn locals(body: &FunctionBody<'_>) -> u64 {
    let groups = body.get_locals_reader().into_iter().flatten().map_while(Result::ok);
    groups.map(|(count, _)| u64::from(count)).sum()
}

fn counts(body: &FunctionBody<'_>) -> Counts {
    let mut counts = Counts::default();
    let operators = body.get_operators_reader().into_iter().flatten();
    operators.map_while(Result::ok).for_each(|operator| counts.count(&operator));
    counts
}

impl Counts {
    fn count(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::Br { .. }
            | Operator::BrIf { .. } => self.edges += 1,
            Operator::BrTable { targets } => self.edges += u64::from(targets.len()) + 1,
            Operator::LocalSet { .. } | Operator::LocalTee { .. } => self.writes += 1,
            Operator::Call { .. } | Operator::ReturnCall { .. } => self.calls += 1,
            Operator::CallIndirect { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryInit { .. }
            | Operator::MemoryGrow { .. }
            | Operator::TableGet { .. }
            | Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. } => self.indirect += 1,
            _ => {}
        }
    }
}
