//! Functions that read and write files, with plain `std::fs`.

use std::fs;
use std::path::Path;

use super::Types;
use super::bindings::exports::test::types::files::Guest;

impl Guest for Types {
    fn read(path: String) -> Result<String, String> {
        fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn write(path: String, text: String) -> Result<(), String> {
        if let Some(directory) = Path::new(&path).parent() {
            fs::create_dir_all(directory).map_err(|error| error.to_string())?;
        }
        fs::write(path, text).map_err(|error| error.to_string())
    }

    fn here() -> Result<String, String> {
        let path = std::env::current_dir().map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    }
}
