//! Functions that attack the host.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;

use wit_bindgen::rt::async_support::{FutureReader, StreamReader};
use wit_bindgen::{spawn_local, yield_async};

use super::bindings::exports::test::streaming::hostile::Guest;
use super::bindings::wasi::filesystem::types::{DescriptorFlags, OpenFlags};
use super::bindings::{wit_future, wit_stream};
use super::files::open;
use super::{Streaming, pause};

/// A day.
const DAY: u32 = 86_400_000;

impl Guest for Streaming {
    async fn endless() -> StreamReader<String> {
        repeating("x".repeat(1000))
    }

    async fn flood() -> StreamReader<u8> {
        let (mut writer, reader) = wit_stream::new();
        spawn_local(async move {
            let mut bytes = vec![b'x'; 32 << 20];
            loop {
                bytes = writer.write_all(bytes).await;
                if !bytes.is_empty() {
                    return;
                }
                bytes = vec![b'x'; 32 << 20];
            }
        });
        reader
    }

    async fn nothings() -> StreamReader<String> {
        repeating(String::new())
    }

    async fn silent() -> StreamReader<String> {
        let (writer, reader) = wit_stream::new();
        mem::forget(writer);
        reader
    }

    async fn never() -> FutureReader<String> {
        let (writer, reader) = wit_future::new(String::new);
        mem::forget(writer);
        reader
    }

    async fn asleep() -> String {
        pause(DAY).await;
        "awake".to_owned()
    }

    async fn tasks(count: u32) -> u32 {
        let begun = Rc::new(Cell::new(0));
        for _ in 0..count {
            let begun = begun.clone();
            spawn_local(async move {
                begun.set(begun.get() + 1);
                pause(DAY).await;
            });
        }
        while begun.get() < count {
            yield_async().await;
        }
        begun.get()
    }

    async fn heap(count: u32) -> u32 {
        for _ in 0..count {
            let (mut writer, reader) = wit_stream::new::<u8>();
            mem::forget(reader);
            spawn_local(async move {
                writer.write_all(vec![0; 1000]).await;
            });
            yield_async().await;
        }
        count
    }

    async fn spin() -> String {
        loop {
            yield_async().await;
        }
    }

    async fn hoard(path: String, count: u32) -> Result<u32, String> {
        let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        for _ in 0..count {
            let (bytes, end) = file.read_via_stream(0);
            mem::forget((bytes, end));
        }
        Ok(count)
    }
}

fn repeating(piece: String) -> StreamReader<String> {
    let (mut writer, reader) = wit_stream::new();
    spawn_local(async move { while writer.write_one(piece.clone()).await.is_none() {} });
    reader
}
