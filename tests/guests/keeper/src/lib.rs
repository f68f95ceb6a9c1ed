//! A plugin with state: keys and values, files, and its configuration. It does what its arguments say, and returns
//! the host's answers.

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Keeper;

    wit_bindgen::generate!({ path: ["../../../host/plugin/wit", "src/keeper.wit"], world: "tests:keeper/keeper", generate_all });
    export!(Keeper with_types_in self);
}

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use bindings::Guest;
use bindings::wasi::config::store as config;
use bindings::wasi::keyvalue::store::{Bucket, Error, open};
use bindings::wasi::keyvalue::{atomics, batch};
use bindings::wasi::logging::logging;

/// The component.
struct Keeper;

/// An error of the store in words.
fn text(error: Error) -> String {
    match error {
        Error::NoSuchStore => "no such store".to_owned(),
        Error::AccessDenied => "access denied".to_owned(),
        Error::Other(why) => why,
    }
}

/// The bucket without a name.
fn bucket() -> Result<Bucket, String> {
    open("").map_err(text)
}

/// The values that belong to a number: of different lengths, so that some are written in place and others are not.
fn parts(name: &str, number: u64) -> Vec<(String, Vec<u8>)> {
    let body = |length: u64| number.to_string().into_bytes().repeat(usize::try_from(length).unwrap_or(1));
    vec![
        (format!("{name}-number"), number.to_string().into_bytes()),
        (format!("{name}-short"), body(1 + number % 7)),
        (format!("{name}-long"), body(1 + number * 37 % 3000)),
    ]
}

/// The number that was written last, if everything that belongs to it is there.
fn last(bucket: &Bucket, name: &str) -> Result<u64, String> {
    let Some(number) = bucket.get(&format!("{name}-number")).map_err(text)? else { return Ok(0) };
    let number = String::from_utf8_lossy(&number).parse().map_err(|_| "half: not a number".to_owned())?;
    let expected = parts(name, number);
    let keys: Vec<String> = expected.iter().map(|(key, _)| key.clone()).collect();
    let found = batch::get_many(bucket, &keys).map_err(text)?;
    let is_whole = found.into_iter().flatten().eq(expected);
    if is_whole { Ok(number) } else { Err(format!("half of {number}")) }
}

fn note(path: &str, line: &str) -> Result<(), String> {
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| format!("notes: {error}"))
}

impl Guest for Keeper {
    fn get(key: String) -> Result<Option<String>, String> {
        let value = bucket()?.get(&key).map_err(text)?;
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    fn set(key: String, value: String) -> Result<(), String> {
        bucket()?.set(&key, value.as_bytes()).map_err(text)
    }

    fn delete(key: String) -> Result<(), String> {
        bucket()?.delete(&key).map_err(text)
    }

    fn keys() -> Result<Vec<String>, String> {
        let (bucket, mut all, mut cursor) = (bucket()?, Vec::new(), None);
        loop {
            let page = bucket.list_keys(cursor).map_err(text)?;
            all.extend(page.keys);
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    fn fill(prefix: String, count: u32, size: u32) -> Result<(), String> {
        let value = vec![b'x'; size as usize];
        let all: Vec<_> = (0..count).map(|number| (format!("{prefix}{number}"), value.clone())).collect();
        batch::set_many(&bucket()?, &all).map_err(text)
    }

    fn add(key: String, delta: u64) -> Result<u64, String> {
        atomics::increment(&bucket()?, &key, delta).map_err(text)
    }

    fn count(key: String, times: u32) -> Result<u64, String> {
        let bucket = bucket()?;
        (0..times).try_fold(0, |_, _| atomics::increment(&bucket, &key, 1).map_err(text))
    }

    fn churn(name: String, notes: String) -> Result<(), String> {
        let bucket = bucket()?;
        let mut number = last(&bucket, &name)?;
        note(&notes, &format!("start {number}\n"))?;
        loop {
            number += 1;
            batch::set_many(&bucket, &parts(&name, number)).map_err(text)?;
            note(&notes, &format!("{number}\n"))?;
        }
    }

    fn whole(name: String) -> Result<u64, String> {
        last(&bucket()?, &name)
    }

    fn configured(key: String) -> Result<Option<String>, String> {
        config::get(&key).map_err(|error| match error {
            config::Error::Upstream(why) | config::Error::Io(why) => why,
        })
    }

    fn configured_all() -> Result<Vec<String>, String> {
        match config::get_all() {
            Ok(all) => Ok(all.into_iter().map(|(key, value)| format!("{key}={value}")).collect()),
            Err(config::Error::Upstream(why) | config::Error::Io(why)) => Err(why),
        }
    }

    fn log(message: String, times: u32) -> u32 {
        (0..times).for_each(|_| logging::log(logging::Level::Info, "keeper", &message));
        times
    }

    fn write_file(path: String, size: u32, hold_ms: u32) -> Result<(), String> {
        fs::write(path, vec![b'x'; size as usize]).map_err(|error| error.to_string())?;
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(hold_ms.into()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn read_file(path: String) -> Result<u64, String> {
        fs::read(path).map(|bytes| bytes.len() as u64).map_err(|error| error.to_string())
    }

    fn remove_file(path: String) -> Result<(), String> {
        fs::remove_file(path).map_err(|error| error.to_string())
    }

    fn rename_file(old: String, new: String) -> Result<(), String> {
        fs::rename(old, new).map_err(|error| error.to_string())
    }

    fn link_file(old: String, new: String) -> Result<(), String> {
        fs::hard_link(old, new).map_err(|error| error.to_string())
    }

    fn list_files(path: String) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(path).map_err(|error| error.to_string())?;
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into())
        };
        entries.map(name).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
}
