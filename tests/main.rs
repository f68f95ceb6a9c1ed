//! t
mod manifest;
