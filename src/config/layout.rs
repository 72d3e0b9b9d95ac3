//! The file of what was arranged in the console. It is the program's own and apart from the settings, whose comments and
//! order are the operator's.

use super::yaml::{self, FileError};
use crate::model::{Layout, TableLayout};
use crate::replace;
use std::path::{Path, PathBuf};

/// The beginning of the file.
const HEAD: &str = "\
# Written by marin-tui when columns are chosen, a table is made wide, nodes are shown by slice or not,
# or panes are resized.
# Remove this file to return to the settings.
";

/// Where it is kept, in the folder of the state.
pub fn layout_file(state: &Path) -> PathBuf {
    state.join("layout.yaml")
}

/// What was arranged; nothing where the file is missing.
pub fn read_layout(file: &Path) -> Result<Layout, FileError> {
    if !file.exists() {
        return Ok(Layout::default());
    }
    yaml::parse(&yaml::read(file)?, file)
        .map_err(|e| FileError { hint: "remove it, or correct this line".into(), ..e })
}

/// Adds to the file what was arranged since. What another console has written meanwhile stays; a file that cannot be
/// used is replaced.
pub fn keep_layout(file: &Path, since: Layout) -> Result<(), FileError> {
    let mut layout = read_layout(file).unwrap_or_default();
    layout.take(since);
    // What is as usual is not worth a line.
    layout.tables.retain(|_, table| *table != TableLayout::default());
    let failed = |why: String| {
        FileError::new(file, format!("cannot be written: {why}"), "check its directory and the disk")
    };
    let text = serde_yaml::to_string(&layout).map_err(|e| failed(e.to_string()))?;
    replace::write(file, format!("{HEAD}{text}").as_bytes()).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PaneLayout;

    fn table(columns: &[&str], wide: bool) -> TableLayout {
        TableLayout { columns: columns.iter().map(ToString::to_string).collect(), wide }
    }

    #[test]
    fn what_was_arranged_comes_back_and_the_rest_stays() {
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
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["jobs"], "what is as usual is not written");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_and_then_replaced() {
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
