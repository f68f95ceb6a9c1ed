//! Packages: finding, checking, installing and keeping other people's plugins. Runs none of their code.
