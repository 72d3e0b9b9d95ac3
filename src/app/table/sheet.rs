//! A table of the console as plain texts, for a command: its own columns, cells and order.

use crate::app::action::fixes::HintContext;
use crate::app::action::keymap::Keymap;
use crate::app::fleet::Fleet;
use crate::app::table::column::{Kind, Visibility};
use crate::app::table::facts::CellContext;
use crate::model::Timestamp;
use crate::model::sort;

/// The text of cells that have no value.
const NOTHING: [&str; 3] = ["", "-", "?"];

/// Titles and cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// The titles of its columns.
    pub titles: Vec<&'static str>,
    /// The cells of its rows, one for each column, safe to print.
    pub rows: Vec<Vec<String>>,
}

/// The rows of this kind that `wanted` accepts, in the console's order and columns. A column in which no row has a
/// value is omitted; text that a cell spreads over the following cells goes into a last column of its own, `NOTE`.
pub fn sheet<K: Kind>(
    (fleet, keymap): (&Fleet, &Keymap),
    now: Timestamp,
    wanted: impl Fn(&K::Row<'_>) -> bool,
) -> Sheet {
    let plain = CellContext::plain(fleet, now);
    let context = CellContext { keymap, hint_context: HintContext { keymap, ..plain.hint_context }, ..plain };
    let mut rows: Vec<K::Row<'_>> =
        K::rows(fleet, None).map(|(_, row)| row).filter(|row| wanted(row)).collect();
    sort::by(&mut rows, |a, b| K::order(a, b));
    let columns =
        || K::columns().iter().filter(|c| c.visibility == Visibility::Always && !c.title.is_empty());
    let mut titles: Vec<&'static str> = columns().map(|column| column.title).collect();
    titles.push("NOTE");
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in &rows {
        let mut note = String::new();
        let mut line: Vec<String> = columns()
            .map(|column| {
                if !note.is_empty() {
                    return "-".to_owned();
                }
                let cell = (column.cell)(row, &context);
                let Some(brief) = cell.brief.filter(|_| cell.spans) else { return cell.text.into_owned() };
                cell.text.strip_prefix(&*brief).unwrap_or(&cell.text).trim().clone_into(&mut note);
                brief.into_owned()
            })
            .collect();
        line.push(note);
        cells.push(line);
    }
    let has_value = |i: usize| cells.iter().any(|line| !NOTHING.contains(&line[i].as_str()));
    let kept: Vec<usize> = (0..titles.len()).filter(|i| has_value(*i)).collect();
    Sheet {
        titles: kept.iter().map(|i| titles[*i]).collect(),
        rows: cells.iter().map(|line| kept.iter().map(|i| line[*i].clone()).collect()).collect(),
    }
}
