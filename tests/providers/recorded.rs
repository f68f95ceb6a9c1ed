//! Stores every request to a fake vendor in a folder, if one is named: `.ci/steps/vendor-types` checks the requests
//! against the published types of the vendors. Contains no secret.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// The variable with the folder.
const FOLDER: &str = "HAFT_TEST_REQUESTS";
/// Headers that belong to the format.
const HEADERS: &[&str] = &["accept", "anthropic-version", "content-type", "user-agent", "x-title"];

/// Records a request for a turn. `vendor` is a name in `.ci/steps/vendor-types`; `target` is the method and the path.
pub(crate) fn record(vendor: &str, target: &str, headers: &BTreeMap<String, String>, body: &Value) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let path = target.split(' ').nth(1).unwrap_or_default();
    let headers: BTreeMap<_, _> =
        headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())).collect();
    let request = json!({ "vendor": vendor, "path": path, "headers": headers, "body": body });
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let file = std::path::Path::new(&folder).join(format!("{vendor}-{process}-{count}.json"));
    std::fs::write(file, request.to_string()).unwrap();
}
