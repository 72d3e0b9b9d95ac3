//! Google Cloud Storage buckets: finds their names in a text, and those in another region.

use super::table::Table;

/// The buckets that a text names as `gs://BUCKET`, in order of appearance.
pub fn named(text: &str) -> impl Iterator<Item = &str> {
    const MARK: &str = "gs://";
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.match_indices(MARK).filter_map(move |(start, _)| {
        let rest = &text[start + MARK.len()..];
        let bucket = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        (!bucket.is_empty()).then_some(bucket)
    })
}

impl Table {
    /// A bucket's region, if it is known and differs from this one.
    pub fn elsewhere(&self, bucket: &str, region: &str) -> Option<&str> {
        self.buckets.get(bucket).map(String::as_str).filter(|location| *location != region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_found_in_any_surrounding_text() {
        let found: Vec<&str> =
            named("--in=gs://a-1/x,gs://b_2 'gs://c.d/é' gs:// gs:/// s3://e gs://é").collect();
        assert_eq!(found, ["a-1", "b_2", "c.d"]);
    }
}
