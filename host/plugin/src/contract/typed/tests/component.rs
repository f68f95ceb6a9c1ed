//! A component that returns its arguments, for any types, generated from WIT as toolchains do.
//!
//! A function with more than 16 flat parameters gets them in memory, and a function with more than one flat result
//! returns the result in memory. With enough `u8` after the value both have equal bytes, and the function passes on
//! their address.

use std::fmt::Write;

use wasmtime::component::{Component, Instance, Linker, Val};
use wasmtime::{Config, Engine, Store};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::super::exports::Exports;
use super::super::model::{Case, Field, Integer, Name, Signature, Type};

/// Number of bytes after each value, so that there are more than 16 flat parameters.
const PADDING: usize = 17;

/// The component, ready to be called.
pub(super) struct Echo {
    pub(super) wit: String,
    store: Store<()>,
    component: Component,
    instance: Instance,
    exports: Exports,
}

impl Echo {
    /// Number of functions of one component.
    pub(super) const TYPES: usize = 10;

    pub(super) fn new(types: &[Type]) -> Self {
        let wit = wit(types);
        let bytes = built(&wit, types.len());
        let engine = Engine::new(&Config::new()).unwrap();
        let component = Component::from_binary(&engine, &bytes).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &component).unwrap();
        let exports = Exports::from_component(&engine, &component);
        Self { wit, store, component, instance, exports }
    }

    /// The type of the function `index` as the component has it.
    pub(super) fn model(&self, index: usize) -> Type {
        let exported = &self.exports.functions[index];
        let signature = Signature::from_function(&exported.ty, None).unwrap();
        signature.params.into_iter().next().unwrap().ty
    }

    /// Passes a value to the function `index`, and returns its result.
    pub(super) fn call(&mut self, index: usize, value: Val) -> Val {
        let place = self.exports.functions[index].index(&self.component).unwrap();
        let function = self.instance.get_func(&mut self.store, place).unwrap();
        let mut arguments = vec![value];
        arguments.extend(std::iter::repeat_n(Val::U8(7), PADDING));
        let mut results = [Val::Bool(false)];
        function.call(&mut self.store, &arguments, &mut results).unwrap();
        let [Val::Tuple(values)] = results else { panic!("no tuple") };
        assert!(values[1..].iter().all(|value| *value == Val::U8(7)));
        values.into_iter().next().unwrap()
    }
}

fn built(wit: &str, functions: usize) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("echo.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    let mut module = wat::parse_str(module(functions)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

fn module(functions: usize) -> String {
    let mut module = String::from(
        r#"(module (memory (export "memory") 16) (global $next (mut i32) (i32.const 1024))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
            (global.get $next)
            (global.set $next (i32.add (global.get $next) (local.get 3))))"#,
    );
    for index in 0..functions {
        write!(module, r#"(func (export "test:echo/all#f{index}") (param i32) (result i32) local.get 0)"#)
            .unwrap();
    }
    module + ")"
}

fn wit(types: &[Type]) -> String {
    let mut text = String::from("package test:echo;\ninterface all {\n");
    let mut counter = 0;
    for (index, ty) in types.iter().enumerate() {
        let name = named(ty, &mut text, &mut counter);
        let padding: String = (0..PADDING).map(|n| format!(", p{n}: u8")).collect();
        let results = ", u8".repeat(PADDING);
        writeln!(text, "f{index}: func(x: {name}{padding}) -> tuple<{name}{results}>;").unwrap();
    }
    text + "}\nworld echo { export all; }\n"
}

/// Returns the name of a type in WIT, after its definition if necessary.
fn named(ty: &Type, text: &mut String, counter: &mut usize) -> String {
    let mut inner = |ty: &Type| named(ty, text, counter);
    match ty {
        Type::Bool => "bool".into(),
        Type::Integer(integer) => integer_name(*integer).into(),
        Type::Float32 => "f32".into(),
        Type::Float64 => "f64".into(),
        Type::Char => "char".into(),
        Type::String => "string".into(),
        Type::Bytes => "list<u8>".into(),
        Type::List(element) => format!("list<{}>", inner(element)),
        Type::Map(types) => format!("map<{}, {}>", inner(&types.0), inner(&types.1)),
        Type::Stream(item) => format!("stream<{}>", inner(item)),
        Type::Future(item) => format!("future<{}>", inner(item)),
        Type::Option(element) => format!("option<{}>", inner(element)),
        Type::Tuple(types) => format!("tuple<{}>", types.iter().map(inner).collect::<Vec<_>>().join(", ")),
        Type::Result(ok, error) => match (ok, error) {
            (None, None) => "result".into(),
            (Some(ok), None) => format!("result<{}>", inner(ok)),
            (None, Some(error)) => format!("result<_, {}>", inner(error)),
            (Some(ok), Some(error)) => format!("result<{}, {}>", inner(ok), inner(error)),
        },
        Type::Record(fields) => {
            let field = |field: &Field| format!("%{}: {}", field.name, inner(&field.ty));
            let body: Vec<String> = fields.iter().map(field).collect();
            define("record", &body, text, counter)
        }
        Type::Variant(cases) => {
            let case = |case: &Case| match &case.ty {
                Some(ty) => format!("%{}({})", case.name, inner(ty)),
                None => format!("%{}", case.name),
            };
            let body: Vec<String> = cases.iter().map(case).collect();
            define("variant", &body, text, counter)
        }
        Type::Enum(names) => define("enum", &escaped(names), text, counter),
        Type::Flags(names) => define("flags", &escaped(names), text, counter),
    }
}

fn escaped(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| format!("%{}", name.name)).collect()
}

fn define(kind: &str, body: &[String], text: &mut String, counter: &mut usize) -> String {
    *counter += 1;
    let name = format!("t{counter}");
    writeln!(text, "{kind} {name} {{ {} }}", body.join(", ")).unwrap();
    name
}

fn integer_name(integer: Integer) -> &'static str {
    match integer {
        Integer::S8 => "s8",
        Integer::U8 => "u8",
        Integer::S16 => "s16",
        Integer::U16 => "u16",
        Integer::S32 => "s32",
        Integer::U32 => "u32",
        Integer::S64 => "s64",
        Integer::U64 => "u64",
    }
}
