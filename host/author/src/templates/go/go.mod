module local/my-plugin

go 1.24

// The part that every component in Go needs. `haft plugin build` writes it, so that nothing is downloaded.
require go.bytecodealliance.org/pkg v0.4.0

replace go.bytecodealliance.org/pkg => ./bindings/pkg
