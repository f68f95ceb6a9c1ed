//! What a component lists, written down when it was built and carried along, so that listing it compiles and runs
//! nothing. Such a record counts for that component alone, and for the version of haft's own listing that made it.

use serde::{Deserialize, Serialize};

use crate::component::listing::{LISTING, Listing};
use crate::component::source::Digest;

/// The record of one component.
#[derive(Serialize, Deserialize)]
struct Record {
    /// SHA-256 of the component.
    component: Digest,
    /// The [`LISTING`] that made it.
    version: u32,
    listing: Listing,
}

/// The record of what a component lists, as text for [`read`]: equal ones give equal bytes.
pub(crate) fn write(component: &Digest, listing: &Listing) -> serde_json::Result<String> {
    let record = Record { component: component.clone(), version: LISTING, listing: listing.clone() };
    serde_json::to_string_pretty(&record).map(|text| text + "\n")
}

/// What was recorded of the component with this digest; `None` where the record is another one's, of another version, or
/// damaged.
pub(crate) fn read(text: &str, component: &Digest) -> Option<Listing> {
    let record: Record = serde_json::from_str(text).ok()?;
    (record.component == *component && record.version == LISTING).then_some(record.listing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Contract;

    #[test]
    fn a_record_counts_for_its_component_and_version_alone() {
        let (own, other) = (Digest::compute(b"one"), Digest::compute(b"two"));
        let listing = Listing::new(Contract::Plugin);
        let text = write(&own, &listing).unwrap();
        assert_eq!(write(&own, &read(&text, &own).unwrap()).unwrap(), text);
        assert!(read(&text, &other).is_none(), "another component");
        let version = |version: u32| text.replace(&format!(": {LISTING},"), &format!(": {version},"));
        assert_eq!(version(LISTING), text);
        assert!(read(&version(LISTING + 1), &own).is_none(), "another version");
        assert!(read("", &own).is_none(), "none");
    }
}
