//! Checks a call's arguments against the tool's JSON Schema.
