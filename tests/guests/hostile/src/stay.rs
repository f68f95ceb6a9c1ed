//! Guests that run for long. They end when cancelled, or never.

use std::time::Duration;

use haft_plugin::Error;

deed! {
    /// Loops for ever without calling anybody.
    Spin, "spin" {} |self, _context| {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}

deed! {
    /// Loops for ever, asking the host for the time in each turn.
    SpinCalling, "spin_calling" {} |self, _context| {
        loop {
            std::hint::black_box(std::time::SystemTime::now());
        }
    }
}

deed! {
    /// Sleeps for some milliseconds.
    Sleep, "sleep" { ms: u64 } |self, _context| {
        std::thread::sleep(Duration::from_millis(self.ms));
        Ok(format!("slept {} ms", self.ms).into())
    }
}

deed! {
    /// Sleeps, and sleeps again.
    SleepForever, "sleep_forever" {} |self, _context| {
        loop {
            std::thread::sleep(Duration::from_hours(1));
        }
    }
}

deed! {
    /// Asks every 5 ms whether it was cancelled, and gives up after `ms`.
    WaitCancel, "wait_cancel" { ms: u64 } |self, context| {
        for turn in 0..self.ms / 5 {
            if context.cancelled() {
                return Ok(format!("cancelled after {} ms", turn * 5).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Error::failed(format!("not cancelled within {} ms", self.ms)))
    }
}

deed! {
    /// Waits to be cancelled, and stays all the same.
    Linger, "linger" {} |self, context| {
        loop {
            if !context.cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

deed! {
    /// Reports progress `steps` times, `ms` apart.
    Progress, "progress" { steps: u32, ms: u64 } |self, context| {
        for step in 1..=self.steps {
            context.progress(f64::from(step), f64::from(self.steps), format!("step {step}"));
            std::thread::sleep(Duration::from_millis(self.ms));
        }
        Ok("done".into())
    }
}
