//! Names that every vendor accepts.
