//! Threads that are lent to guests. Whoever reads calls one after the other may have those that are
//! over in a moment made where it is, which saves two threads that wake each other. Such a thread is
//! inside the guests' wall from the first of them on (`walls`), and a guest that waits or goes on past
//! a tick of the clock goes on elsewhere.

use std::cell::{Cell, RefCell};

/// Clears away what a guest left: here, or where it is in nobody's way.
type Left = Box<dyn FnOnce(Whose)>;

/// What guests leave while callers wait is cleared away so many at a time: half of what eight calls leave.
const TOGETHER: usize = 4;

/// Whose the next moment of a lent thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Nobody's: there is nothing else to do.
    Nobodys,
    /// The next caller's, who waits already.
    Callers,
}

thread_local! {
    static LENT: Cell<bool> = const { Cell::new(false) };
    static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
}

/// Lends the calling thread, for good, to guests that may write nowhere. It must do nothing else than
/// what can be done where nothing can be written: it opens no file and starts no thread or process.
pub fn lend() {
    LENT.set(true);
}

/// Clears away what the guests left that ran on the calling thread, where nobody waits or enough has been left
/// to trouble another thread for. To be called by whoever lends it, when their callers have the answers, and
/// before it waits.
pub fn clear(whose: Whose) {
    let all = LEFT.with_borrow_mut(|all| {
        let is_time = whose == Whose::Nobodys || all.len() >= TOGETHER;
        if is_time { std::mem::take(all) } else { Vec::new() }
    });
    // Who made several calls at once will soon make more.
    let whose = if all.len() > 1 { Whose::Callers } else { whose };
    for left in all {
        left(whose);
    }
}

/// Whether a guest may run on the calling thread.
pub fn is_lent() -> bool {
    LENT.get()
}

/// Does something later, when whoever lent the calling thread clears it.
pub fn leave(left: impl FnOnce(Whose) + 'static) {
    LEFT.with_borrow_mut(|all| all.push(Box::new(left)));
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// What is left by so many calls is cleared away at `now`; whose moment that was, for each that was.
    fn cleared(calls: usize, now: Whose) -> Vec<Whose> {
        let cleared = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..calls {
            let cleared = cleared.clone();
            leave(move |whose| cleared.borrow_mut().push(whose));
        }
        clear(now);
        let now = cleared.take();
        clear(Whose::Nobodys);
        assert_eq!(now.len() + cleared.take().len(), calls, "nothing stays, and nothing is cleared twice");
        now
    }

    #[test]
    fn what_is_left_is_cleared_together_and_in_nobody_s_way() {
        assert_eq!(cleared(1, Whose::Nobodys), [Whose::Nobodys]);
        assert_eq!(cleared(2, Whose::Nobodys), [Whose::Callers; 2], "more calls come soon");
        assert_eq!(cleared(TOGETHER - 1, Whose::Callers), [], "not worth another thread's trouble yet");
        assert_eq!(cleared(TOGETHER, Whose::Callers), [Whose::Callers; TOGETHER]);
    }
}
