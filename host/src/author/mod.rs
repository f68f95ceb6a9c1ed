//! Writing plugins: templates, the toolchains of other languages, what haft adds to a component.
