//! Tables on standard output.

use crate::model::text::printable;
use std::io::{self, Write};

/// Prints rows under a header. Each column is as wide as its widest cell, and numbers are right-aligned. Control
/// characters in cells are replaced here.
pub fn print(out: &mut impl Write, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let clean = |row: &Vec<String>| row.iter().map(|c| printable(c).into_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(clean).collect();
    let width = |i: usize| {
        rows.iter().map(|r| r[i].chars().count()).chain([header[i].chars().count()]).max().unwrap_or(0)
    };
    let is_number = |cell: &String| cell == "-" || cell.chars().all(|c| c.is_ascii_digit());
    let numeric: Vec<bool> =
        (0..header.len()).map(|i| !rows.is_empty() && rows.iter().all(|r| is_number(&r[i]))).collect();
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    for row in [&header].into_iter().chain(&rows) {
        let cell = |(i, cell): (usize, &String)| {
            let width = width(i);
            if numeric[i] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
