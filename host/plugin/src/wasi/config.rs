//! `wasi:config`: the values of `[plugins.config]` in program.toml, and nothing else. Without values each query is
//! refused, which is recorded for hints.

use wasmtime::StoreContextMut;
use wasmtime::component::Linker;

use crate::options::Config;
use crate::wasi::capability::{Capability, Has, HasCapability, NewGuest, View};
use crate::wasi::drafts::wasi::config::store::{self, Error, Host};

const REFUSED: &str = "no configuration is granted";

/// The names of the interface in earlier drafts, which have equal functions and types.
const EARLIER: [&str; 2] = ["wasi:config/store@0.2.0-draft", "wasi:config/runtime@0.2.0-draft"];

pub(crate) struct Configuration(pub(crate) Option<Config>);

impl Capability for Configuration {
    fn new(guest: &NewGuest<'_>) -> Self {
        Self(guest.belongings.options.config.clone())
    }

    fn link<S: HasCapability<Self>>(linker: &mut Linker<S>) -> wasmtime::Result<()> {
        store::add_to_linker::<S, Has<Self>>(linker, S::view)?;
        for name in EARLIER {
            let mut interface = linker.instance(name)?;
            interface.func_wrap("get", |mut store: StoreContextMut<'_, S>, (key,): (String,)| {
                Ok((store.data_mut().view().config().map(|config| config.get(&key)),))
            })?;
            interface.func_wrap("get-all", |mut store: StoreContextMut<'_, S>, (): ()| {
                Ok((store.data_mut().view().config().map(Config::all),))
            })?;
        }
        Ok(())
    }
}

impl View<'_, Configuration> {
    fn config(&mut self) -> Result<&Config, Error> {
        self.shared.denied.config |= self.own.0.is_none();
        self.own.0.as_ref().ok_or_else(|| Error::Upstream(REFUSED.to_owned()))
    }
}

impl Host for View<'_, Configuration> {
    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, Error>> {
        Ok(self.config().map(|config| config.get(&key)))
    }

    async fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, Error>> {
        Ok(self.config().map(Config::all))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineOptions};

    /// Components that were built for earlier drafts are linked too.
    #[test]
    fn earlier_names_are_linked() {
        let config = |name: &str, error: &str| {
            format!(
                r#"(import "{name}" (instance
                    (type $cases (variant (case "upstream" string) (case "io" string)))
                    (export "{error}" (type $error (eq $cases)))
                    (export "get" (func (param "key" string) (result (result (option string) (error $error)))))
                    (export "get-all" (func (result (result (list (tuple string string)) (error $error)))))))"#
            )
        };
        let log = r#"(import "wasi:logging/logging" (instance
            (type $cases (enum "trace" "debug" "info" "warn" "error" "critical"))
            (export "level" (type $level (eq $cases)))
            (export "log" (func (param "level" $level) (param "context" string) (param "message" string)))))"#;
        let imports = [
            config("wasi:config/store@0.2.0-draft", "error"),
            config("wasi:config/runtime@0.2.0-draft", "config-error"),
            log.to_owned(),
        ];
        let engine = Engine::new(&EngineOptions::default());
        for import in imports {
            let component = wat::parse_str(format!("(component {import})")).unwrap();
            let (component, _) = engine.compile(&component).unwrap();
            assert!(engine.link(&component).is_ok(), "{import}");
        }
    }
}
