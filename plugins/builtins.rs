// The plugins that haft carries in itself, in the order of their tools; the host includes this
// list as an expression. Their tools are shown to models under their bare names: `read`, not
// `files__read`. A plugin that is to be one of them needs a line here and nothing else.
&[
    Builtin {
        name: "files",
        packed: packed!("files.wasm"),
    },
    Builtin {
        name: "time",
        packed: packed!("time.wasm"),
    },
    Builtin {
        name: "fetch",
        packed: packed!("fetch.wasm"),
    },
    Builtin {
        name: "search",
        packed: packed!("search.wasm"),
    },
]
