//! `haft dashboard` and `haft serve --page` as a browser meets them, over HTTP: who is let in, what is shown, and what an answer
//! to a waiting call does. What a real browser makes of it is `.ci/steps/page`'s to say.

mod approvals;
mod browser;
mod doors;
mod load;
mod shown;
