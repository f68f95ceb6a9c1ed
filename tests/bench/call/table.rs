//! Times variants in turn and prints medians with their ratio to the first.

#![allow(dead_code, reason = "not every benchmark uses all of it")]

use std::time::{Duration, Instant};

use crate::rounds::rounds;

/// Rounds; each times every variant once.
const ROUNDS: usize = 60;

/// Duration of one variant in a round.
const SLICE: Duration = Duration::from_millis(20);

/// A variant's name, and one run of it.
type Row<'a> = (&'a str, Box<dyn FnMut() + 'a>);

/// The result of a variant.
#[derive(Clone, Copy)]
pub(crate) struct Summary {
    /// Microseconds.
    pub(crate) median: f64,
    /// The median of the ratios to the first variant, round by round.
    pub(crate) ratio: f64,
}

/// Variants to compare.
pub(crate) struct Table<'a> {
    title: &'a str,
    /// Pause before every run; the pause does not count.
    pub(crate) pause: Duration,
    rows: Vec<Row<'a>>,
}

impl<'a> Table<'a> {
    /// A table without rows.
    pub(crate) fn new(title: &'a str) -> Self {
        Self { title, pause: Duration::ZERO, rows: Vec::new() }
    }

    /// Adds a variant; the others are compared with the first one.
    pub(crate) fn row(&mut self, name: &'a str, run: impl FnMut() + 'a) {
        self.rows.push((name, Box::new(run)));
    }

    /// Times all variants and prints the table; the results by variant.
    pub(crate) fn print(mut self) -> Vec<Summary> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); self.rows.len()];
        for round in 0..=rounds(ROUNDS) {
            for ((_, run), times) in self.rows.iter_mut().zip(&mut times) {
                let time = slice(run, self.pause);
                // The first round warms up.
                if round > 0 {
                    times.push(time);
                }
            }
        }
        println!("\n{}", self.title);
        println!("{:<34} {:>10} {:>10} {:>10} {:>8}", "", "median", "p10", "p90", "ratio");
        let first = times.first().cloned().unwrap_or_default();
        let mut summaries = Vec::new();
        for ((name, _), times) in self.rows.iter().zip(times) {
            let ratios = times.iter().zip(&first).map(|(time, first)| time / first).collect();
            let [p10, median, p90] = [0.1, 0.5, 0.9].map(|at| quantile(times.clone(), at));
            let ratio = quantile(ratios, 0.5);
            println!("{name:<34} {median:>8.1}us {p10:>8.1}us {p90:>8.1}us {ratio:>8.2}");
            summaries.push(Summary { median, ratio });
        }
        summaries
    }
}

/// Microseconds of one run, the mean over a slice of time.
fn slice(run: &mut dyn FnMut(), pause: Duration) -> f64 {
    let mut spent = Duration::ZERO;
    let mut runs = 0_u32;
    while spent + pause * runs < SLICE {
        std::thread::sleep(pause);
        let begun = Instant::now();
        run();
        spent += begun.elapsed();
        runs += 1;
    }
    spent.as_secs_f64() * 1e6 / f64::from(runs)
}

fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a short list"
    )]
    let place = (at * (values.len() - 1) as f64).round() as usize;
    values.get(place).copied().unwrap_or(f64::NAN)
}
