//! The file with the layout that was arranged in the console. The program owns it; it is separate from the settings
//! file, whose comments and order belong to the operator.

use super::yaml::{self, FileError};
use crate::model::{Layout, TableLayout};
use crate::replace;
use std::path::{Path, PathBuf};

/// The header of the file.
const HEADER: &str = "\
# Written by marin-tui when columns are chosen, a table is made wide, nodes are shown by slice or not,
# or panes are resized.
# Remove this file to return to the settings.
";

/// Path of the file, in the state directory.
pub fn layout_file(state: &Path) -> PathBuf {
    state.join("layout.yaml")
}

/// Reads the layout; the default if the file does not exist.
pub fn read_layout(file: &Path) -> Result<Layout, FileError> {
    if !file.exists() {
        return Ok(Layout::default());
    }
    yaml::parse(&yaml::read(file)?, file)
        .map_err(|e| FileError { hint: "remove it, or correct this line".into(), ..e })
}

/// Merges changes into the file. Changes that another console wrote in the meantime are kept; an unusable file is
/// replaced.
pub fn keep_layout(file: &Path, since: Layout) -> Result<(), FileError> {
    let mut layout = read_layout(file).unwrap_or_default();
    layout.take(since);
    // Default layouts are not written.
    layout.tables.retain(|_, table| *table != TableLayout::default());
    let failed = |why: String| {
        FileError::new(file, format!("cannot be written: {why}"), "check its directory and the disk")
    };
    let text = serde_yaml::to_string(&layout).map_err(|e| failed(e.to_string()))?;
    replace::write(file, format!("{HEADER}{text}").as_bytes()).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PaneLayout;

    fn table(columns: &[&str], wide: bool) -> TableLayout {
        TableLayout { columns: columns.iter().map(ToString::to_string).collect(), wide }
    }

    #[test]
    fn a_layout_is_read_back_and_the_rest_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layout.yaml");
        assert_eq!(read_layout(&file).unwrap(), Layout::default());
        keep_layout(&file, Layout::of("nodes", table(&["node", "cpu"], true))).unwrap();
        keep_layout(&file, Layout::of("jobs", table(&["job"], false))).unwrap();
        let panes = Some(PaneLayout { left: 300, upper: 700, log: 400 });
        keep_layout(&file, Layout { panes, ..Layout::default() }).unwrap();
        let layout = read_layout(&file).unwrap();
        assert_eq!(layout.tables["nodes"], table(&["node", "cpu"], true));
        assert_eq!((&layout.tables["jobs"], layout.panes), (&table(&["job"], false), panes));
        keep_layout(&file, Layout::of("nodes", TableLayout::default())).unwrap();
        let tables = read_layout(&file).unwrap().tables;
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["jobs"], "default layouts are not written");
    }

    #[test]
    fn an_unusable_file_is_reported_and_then_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("layout.yaml");
        std::fs::write(&file, "tables: 3\n").unwrap();
        let e = read_layout(&file).unwrap_err();
        assert!(e.what().contains("layout.yaml:1:") && e.hint.contains("remove it"), "{e}");
        keep_layout(&file, Layout::of("jobs", table(&["job"], false))).unwrap();
        assert_eq!(read_layout(&file).unwrap().tables["jobs"], table(&["job"], false));
        assert!(keep_layout(&dir.path().join("nowhere/layout.yaml"), Layout::default()).is_err());
    }
}
