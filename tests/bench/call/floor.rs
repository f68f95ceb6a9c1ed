//! The floor: the cost of a store, an instance and a call in wasmtime itself, with a plain WASI context, the
//! default allocator and no code of haft.

use std::path::Path;

use serde_json::Value;
use wasmtime::component::{
    Component, ComponentExportIndex, HasSelf, InstancePre, Linker, ResourceTable, TypedFunc,
};
use wasmtime::{Config, Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

wasmtime::component::bindgen!({ path: "../../wit", world: "plugin", exports: { default: async } });

use self::exports::haft::plugin::tools::ToolCall;
use self::haft::plugin::host;

pub(crate) struct Floor {
    engine: Engine,
    component: PluginPre<Data>,
    runtime: tokio::runtime::Runtime,
}

struct Data {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl Floor {
    pub(crate) fn new(component: &Path) -> Self {
        // With epochs, because a guest that cannot be stopped is no alternative.
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let mut linker: Linker<Data> = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        host::add_to_linker::<Data, HasSelf<Data>>(&mut linker, |data| data).unwrap();
        let component = Component::from_file(&engine, component).unwrap();
        let component = PluginPre::new(linker.instantiate_pre(&component).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { engine, component, runtime }
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) {
        let call = ToolCall { id: "1".into(), tool: tool.into(), arguments: arguments.to_string() };
        self.runtime.block_on(async {
            let data = Data { wasi: WasiCtx::builder().build(), table: ResourceTable::new() };
            let mut store = Store::new(&self.engine, data);
            store.set_epoch_deadline(1 << 40);
            let plugin = self.component.instantiate_async(&mut store).await.unwrap();
            let answer = plugin.haft_plugin_tools().call_call_tool(&mut store, &call).await.unwrap();
            assert!(answer.is_ok());
        });
    }
}

/// The floor of one typed function, from a text to a text.
pub(crate) struct TypedFloor {
    engine: Engine,
    component: InstancePre<Data>,
    function: ComponentExportIndex,
    runtime: tokio::runtime::Runtime,
}

impl TypedFloor {
    pub(crate) fn new(component: &Path, function: &str) -> Self {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let mut linker: Linker<Data> = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        let component = Component::from_file(&engine, component).unwrap();
        let function = component.get_export_index(None, function).unwrap();
        let component = linker.instantiate_pre(&component).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { engine, component, function, runtime }
    }

    pub(crate) fn call(&self, text: &str) {
        self.runtime.block_on(async {
            let data = Data { wasi: WasiCtx::builder().build(), table: ResourceTable::new() };
            let mut store = Store::new(&self.engine, data);
            store.set_epoch_deadline(1 << 40);
            let instance = self.component.instantiate_async(&mut store).await.unwrap();
            let function: TypedFunc<(&str,), (String,)> =
                instance.get_typed_func(&mut store, self.function).unwrap();
            assert!(!function.call_async(&mut store, (text,)).await.unwrap().0.is_empty());
        });
    }
}

impl WasiView for Data {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl host::Host for Data {
    fn log(&mut self, _: host::Level, _: String) {}
    fn progress(&mut self, _: f64, _: Option<f64>, _: String) {}
    fn cancelled(&mut self) -> bool {
        false
    }
    fn workspace(&mut self) -> Option<String> {
        None
    }
    fn home(&mut self) -> Option<String> {
        None
    }
}
