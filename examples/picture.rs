//! A picture of a terminal program as SVG: runs it in a pseudo-terminal, types and waits as told, and draws its cells.
//!
//! `cargo run --example picture -- --out fleet.svg --steps 'wait:14 clusters' 'keys:j' -- marin-tui demo`

#![allow(clippy::unwrap_used, reason = "a script stops at the first surprise")]

#[path = "../tests/support/pty.rs"]
mod pty;

use clap::Parser;
use pty::Pty;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Draws a terminal program as SVG.
#[derive(Parser)]
struct Arguments {
    /// The file to write
    #[arg(long)]
    out: PathBuf,
    /// Columns and rows of the terminal
    #[arg(long, default_value = "120x40")]
    size: String,
    /// What to do before drawing, in order: `wait:TEXT` until it is on the screen, `gone:TEXT` until it is not,
    /// `keys:KEYS` with \r, \t and \e
    #[arg(long, num_args = 1..)]
    steps: Vec<String>,
    /// Keys that make it leave
    #[arg(long, default_value = "qq")]
    leave: String,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

/// How long a step may take.
const LONGEST: Duration = Duration::from_secs(300);
/// Width and height of a cell, and where the text's baseline is, in pixels.
const CELL: (f32, f32, f32) = (8.4, 18.0, 13.5);
const MARGIN: f32 = 10.0;
const BACKGROUND: &str = "#14161b";
const FOREGROUND: &str = "#c9d1d9";
/// The sixteen, as most terminals of a dark theme have them.
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];

fn main() {
    let arguments = Arguments::parse();
    let (columns, rows) = arguments.size.split_once('x').expect("a size is COLUMNSxROWS");
    let program: Vec<&str> = arguments.program.iter().map(String::as_str).collect();
    let env = [("COLORTERM", "truecolor")];
    let mut pty = Pty::start(&program, &env, columns.parse().unwrap(), rows.parse().unwrap());
    for step in &arguments.steps {
        match step.split_once(':') {
            Some(("wait", text)) => drop(pty.wait_for(text, LONGEST, |screen| screen.contains(text))),
            Some(("gone", text)) => drop(pty.wait_for(text, LONGEST, |screen| !screen.contains(text))),
            Some(("keys", keys)) => pty.send(&unescaped(keys)),
            _ => panic!("no such step: {step}"),
        }
    }
    // What the last key changed is drawn within a frame or two.
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&arguments.out, pty.screen(svg)).unwrap();
    pty.send(&unescaped(&arguments.leave));
    pty.wait_exit();
}

fn unescaped(keys: &str) -> String {
    keys.replace("\\r", "\r").replace("\\t", "\t").replace("\\e", "\x1b")
}

/// Foreground and background of a cell.
fn colours(cell: &vt100::Cell) -> (String, Option<String>) {
    let named = |colour| match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(i @ 0..16) => Some(PALETTE[usize::from(i)].to_owned()),
        vt100::Color::Idx(i @ 16..232) => {
            let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
            let i = i - 16;
            Some(format!("#{:02x}{:02x}{:02x}", level(i / 36), level(i / 6 % 6), level(i % 6)))
        }
        vt100::Color::Idx(i) => Some(format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (i - 232))),
        vt100::Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    };
    let (front, back) = (named(cell.fgcolor()), named(cell.bgcolor()));
    if cell.inverse() {
        (back.unwrap_or_else(|| BACKGROUND.into()), Some(front.unwrap_or_else(|| FOREGROUND.into())))
    } else {
        (front.unwrap_or_else(|| FOREGROUND.into()), back)
    }
}

fn svg(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height, baseline) = CELL;
    let (w, h) = (f32::from(columns) * width + 2.0 * MARGIN, f32::from(rows) * height + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, 'JetBrains Mono', Menlo, 'DejaVu Sans Mono', monospace\" font-size=\"14\" \
         xml:space=\"preserve\">\n"
    );
    for row in 0..rows {
        let top = MARGIN + f32::from(row) * height;
        let mut column = 0;
        while column < columns {
            // A run of cells that look alike is one element.
            let first = screen.cell(row, column).unwrap();
            let style = |c: &vt100::Cell| (colours(c), c.bold(), c.dim(), c.underline());
            let look = style(first);
            let (mut text, mut end) = (String::new(), column);
            while let Some(cell) = screen.cell(row, end).filter(|c| style(c) == look) {
                match cell.contents() {
                    _ if cell.is_wide_continuation() => {}
                    "" => text.push(' '),
                    content => text.push_str(content),
                }
                end += 1;
            }
            let (left, run) = (MARGIN + f32::from(column) * width, f32::from(end - column) * width);
            let ((front, back), bold, dim, underline) = look;
            if let Some(back) = back {
                writeln!(out, "<rect x=\"{left:.1}\" y=\"{top:.0}\" width=\"{run:.1}\" height=\"{height}\" fill=\"{back}\"/>")
                    .unwrap();
            }
            if !text.trim().is_empty() {
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let mut more = String::new();
                for (set, attribute) in [
                    (bold, " font-weight=\"bold\""),
                    (dim, " opacity=\"0.6\""),
                    (underline, " text-decoration=\"underline\""),
                ] {
                    more.push_str(if set { attribute } else { "" });
                }
                writeln!(
                    out,
                    "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{run:.1}\" fill=\"{front}\"{more}>{text}</text>",
                    top + baseline
                )
                .unwrap();
            }
            column = end;
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}
