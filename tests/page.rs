//! `haft dashboard` and `haft serve --page` as a browser sees them, over HTTP: admission, the displayed data, and the
//! effect of an answer to a waiting call. `.ci/steps/page` tests them with a real browser.

mod approvals;
mod browser;
mod doors;
mod load;
mod shown;
