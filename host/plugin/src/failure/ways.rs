//! What to do instead, where a component was built for another kind of host: one sentence for each kind.

/// Beginnings of interfaces, and the way out. The first that fits is taken.
const WAYS: &[(&str, &str)] = &[
    (
        "fermyon:spin/",
        "that is of Spin: use `wasi:keyvalue`, `wasi:config` or `wasi:http` in its place (Rust: `wstd` or `std`, not `spin-sdk`)",
    ),
    ("spin:", "that is of Spin: use `wasi:keyvalue`, `wasi:config` or `wasi:http` in its place"),
    ("fastly:", "that is of Fastly: use `wasi:http` in its place"),
    (
        "wasmcloud:",
        "that is of wasmCloud, whose providers are not here: use `wasi:keyvalue`, `wasi:config` or `wasi:http` in its place",
    ),
    (
        "wasi:blobstore/",
        "keep files in the directory `/state` (`state = \"10MiB\"` in the grant) in its place",
    ),
    ("wasi:messaging/", "haft passes no messages between components: offer a function instead"),
    ("wasi:sql/", "connect to a database by `wasi:sockets` in its place"),
    ("wasi:nn/", "haft runs no models for components: ask a server by `wasi:http` in its place"),
    ("haft:plugin/", "rebuild it against `wit/` of this haft"),
    ("wasi:", "rebuild it for WASI 0.2 (`wasm32-wasip2`), or for the released WASI 0.3"),
];

/// Where none of them fits.
const COMPOSE: &str = "join it with a component that exports it (`wac plug`), or build it without";

/// The way out for a component that imports `import`, an interface or a function of one.
pub(super) fn around(import: &str) -> &'static str {
    let interface = import.rsplit(" of ").next().unwrap_or(import).trim_start_matches('`');
    WAYS.iter().find(|(beginning, _)| interface.starts_with(beginning)).map_or(COMPOSE, |(_, way)| way)
}

/// The way out for a component that serves HTTP and not MCP.
pub(super) const HTTP: &str = "a plugin exports functions, `wasi:cli/run` or an MCP server: export what its handler does as a \
                               function, or answer MCP at `/mcp`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_that_of_the_interface() {
        for (import, expected) in [
            ("`send` of `fermyon:spin/redis@2.0.0`", "of Spin"),
            ("`wasmcloud:bus/lattice@1.0.0`", "of wasmCloud"),
            ("`wasi:io/poll@0.3.0-rc-2025-09-16`", "WASI 0.2"),
            ("`f` of `haft:plugin/host@0.2.0`", "this haft"),
            ("`f` of `acme:weather/report@1.0.0`", "wac plug"),
        ] {
            assert!(around(import).contains(expected), "{import}: {}", around(import));
        }
    }
}
