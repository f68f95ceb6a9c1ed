//! Keeps texts within a number of characters.
