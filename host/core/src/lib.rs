//! The types and functions that all other crates of haft use. A module uses only modules that stand **above** it
//! here.

pub mod words;

pub mod report;

pub mod sync;

pub mod encoding;

pub mod json;

pub mod random;

pub mod scan;

pub mod call;

pub mod limit;

pub mod units;

pub mod usage;

pub mod trace;

pub mod heap;

pub mod replicas;

pub mod grant;

pub mod upstream;

pub mod net;

pub mod lookup;

pub mod event;

pub mod pattern;

pub mod rule;

pub mod model;

pub mod secret;

pub mod replace;

pub mod undo;

pub mod journal;

pub mod tool;

pub mod project;

pub mod skill;
