//! Functions that answer in pieces.

use wit_bindgen::rt::async_support::{FutureReader, StreamReader};
use wit_bindgen::spawn_local;

use super::bindings::exports::test::streaming::pieces::Guest;
use super::bindings::wasi::clocks::monotonic_clock;
use super::bindings::{wit_future, wit_stream};
use super::{Streaming, pause};

impl Guest for Streaming {
    async fn count(count: u32, milliseconds: u32) -> StreamReader<String> {
        let (mut writer, reader) = wit_stream::new();
        spawn_local(async move {
            for number in 1..=count {
                pause(milliseconds).await;
                let piece = format!("{number} {}\n", monotonic_clock::now());
                if writer.write_one(piece).await.is_some() {
                    return;
                }
            }
        });
        reader
    }

    async fn bytes(count: u32) -> StreamReader<u8> {
        stream((0..count).map(|number| (number % 251) as u8 | 0x80).collect())
    }

    async fn text(text: String) -> StreamReader<u8> {
        let (mut writer, reader) = wit_stream::new();
        spawn_local(async move {
            for byte in text.into_bytes() {
                writer.write_one(byte).await;
            }
        });
        reader
    }

    async fn numbers(count: u32) -> StreamReader<u64> {
        let (mut writer, reader) = wit_stream::new();
        spawn_local(async move {
            writer.write_all((0..u64::from(count)).map(|number| number << 53).collect()).await;
        });
        reader
    }

    async fn later(text: String, milliseconds: u32) -> FutureReader<String> {
        let (writer, reader) = wit_future::new(String::new);
        spawn_local(async move {
            pause(milliseconds).await;
            let _ = writer.write(text).await;
        });
        reader
    }

    async fn broken(failure: Option<String>) -> (StreamReader<String>, FutureReader<Result<(), String>>) {
        let (mut writer, reader) = wit_stream::new();
        let (end, ended) = wit_future::new(|| Ok(()));
        spawn_local(async move {
            writer.write_all(vec!["one, ".to_owned(), "two".to_owned()]).await;
            drop(writer);
            let _ = end.write(failure.map_or(Ok(()), Err)).await;
        });
        (reader, ended)
    }

    async fn refused() -> Result<StreamReader<String>, String> {
        Err("as told".to_owned())
    }

    async fn upper(mut pieces: StreamReader<String>) -> StreamReader<String> {
        let (mut writer, reader) = wit_stream::new();
        spawn_local(async move {
            while let Some(piece) = pieces.next().await {
                if writer.write_one(piece.to_uppercase()).await.is_some() {
                    return;
                }
            }
        });
        reader
    }

    async fn size(bytes: StreamReader<u8>) -> u64 {
        bytes.collect().await.len() as u64
    }

    async fn awaited(number: FutureReader<u32>) -> u32 {
        number.await
    }

    async fn wait(milliseconds: u32) -> String {
        pause(milliseconds).await;
        format!("waited {milliseconds} ms")
    }

    fn plain(text: String) -> String {
        text
    }
}

/// A stream of these bytes.
pub(crate) fn stream(bytes: Vec<u8>) -> StreamReader<u8> {
    let (mut writer, reader) = wit_stream::new();
    spawn_local(async move {
        writer.write_all(bytes).await;
    });
    reader
}
