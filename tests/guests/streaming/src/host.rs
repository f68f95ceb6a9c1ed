//! Functions that use the host's interfaces.

use wit_bindgen::rt::async_support::StreamReader;

use super::bindings::exports::test::streaming::host::Guest;
use super::bindings::wasi::cli::environment;
use super::bindings::wasi::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use super::files::{directory, open, text};
use super::pieces::stream;
use super::{Streaming, http, network};

impl Guest for Streaming {
    async fn read(path: String) -> Result<StreamReader<u8>, String> {
        let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let (bytes, end) = file.read_via_stream(0);
        let bytes = bytes.collect().await;
        end.await.map_err(text)?;
        Ok(stream(bytes))
    }

    async fn write(path: String, bytes: StreamReader<u8>) -> Result<u64, String> {
        let how = OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let file = open(&path, how, DescriptorFlags::WRITE).await?;
        file.write_via_stream(bytes, 0).await.map_err(text)?;
        Ok(file.stat().await.map_err(text)?.size)
    }

    async fn append(path: String, added: String) -> Result<u64, String> {
        let file = open(&path, OpenFlags::CREATE, DescriptorFlags::WRITE).await?;
        file.append_via_stream(stream(added.into_bytes())).await.map_err(text)?;
        Ok(file.stat().await.map_err(text)?.size)
    }

    async fn entries(path: String) -> Result<Vec<String>, String> {
        let directory = open(&path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
        let (entries, end) = directory.read_directory();
        let mut names: Vec<String> = entries.collect().await.into_iter().map(|entry| entry.name).collect();
        end.await.map_err(text)?;
        names.sort();
        Ok(names)
    }

    async fn change(how: String, path: String, other: String) -> Result<String, String> {
        let (from, old) = directory(&path)?;
        let changed = match how.as_str() {
            "make" => from.create_directory_at(old).await,
            "remove" => from.unlink_file_at(old).await,
            "symlink" => from.symlink_at(other, old).await,
            "rename" => {
                let (to, new) = directory(&other)?;
                from.rename_at(old, &to, new).await
            }
            _ => {
                let (to, new) = directory(&other)?;
                from.link_at(PathFlags::empty(), old, &to, new).await
            }
        };
        changed.map(|()| how).map_err(text)
    }

    async fn both(path: String) -> Result<Vec<String>, String> {
        let earlier = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let file = open(&path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        let bytes = file.read_via_stream(0).0.collect().await;
        Ok(vec![earlier, String::from_utf8_lossy(&bytes).into_owned()])
    }

    async fn get(
        authority: String,
        path: String,
        method: Option<String>,
    ) -> Result<StreamReader<u8>, String> {
        http::get(&authority, &path, method).await
    }

    async fn connect(address: (u8, u8, u8, u8), port: u16) -> Result<String, String> {
        network::connect(address, port).await
    }

    async fn listen(port: u16) -> Result<String, String> {
        network::listen(port)
    }

    async fn look_up(name: String) -> Result<String, String> {
        network::look_up(name).await
    }

    async fn datagrams() -> Result<String, String> {
        network::datagrams()
    }

    fn environment() -> String {
        let lines = environment::get_environment().into_iter().map(|(name, value)| format!("{name}={value}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}
