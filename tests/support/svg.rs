//! An animation of a terminal as SVG: a sequence of screens, with CSS only, so that it also works where scripts are
//! blocked. Rows shared by several screens are written once.

use regex::Regex;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Width and height of a cell, and position of the text's baseline, in pixels.
const CELL: (f32, f32, f32) = (8.4, 17.0, 13.0);
/// Margin around the terminal, in pixels.
const MARGIN: f32 = 10.0;
/// Height of the line below the terminal that shows the pressed keys, in pixels.
const CAPTION: f32 = 34.0;
const BACKGROUND: &str = "#14161b";
const FOREGROUND: &str = "#c9d1d9";
/// The sixteen colors of a typical dark terminal.
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];

/// One screen of the animation.
pub struct Frame {
    /// The keys that led to it, as a manual writes them.
    pub keys: &'static str,
    /// Description of the screen.
    pub caption: &'static str,
    /// How long it is shown, in seconds.
    pub seconds: f32,
    /// Its rows as SVG, from the top.
    pub rows: Vec<String>,
}

/// The rows of a terminal as SVG, each at vertical position zero.
pub fn rows(screen: &vt100::Screen) -> Vec<String> {
    (0..screen.size().0.get()).map(|row| one_row(screen, row)).collect()
}

/// Draws the screens in a loop; `columns` is the terminal's width.
pub fn animation(frames: &[Frame], columns: u16) -> String {
    let height = frames.iter().map(|frame| frame.rows.len()).max().unwrap_or_default() as f32 * CELL.1;
    let (w, h) = (f32::from(columns) * CELL.0 + 2.0 * MARGIN, height + 2.0 * MARGIN + CAPTION);
    let mut known: HashMap<&str, usize> = HashMap::new();
    let (mut shared, mut screens) = (String::new(), String::new());
    for (number, frame) in frames.iter().enumerate() {
        writeln!(screens, "<g id=\"f{number}\" class=\"f\">").unwrap();
        for (index, row) in frame.rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let next = known.len();
            let id = *known.entry(row).or_insert(next);
            if id == next {
                writeln!(shared, "<g id=\"r{id}\">{row}</g>").unwrap();
            }
            let top = MARGIN + index as f32 * CELL.1;
            writeln!(screens, "<use href=\"#r{id}\" y=\"{top}\"/>").unwrap();
        }
        screens.push_str(&caption(frame, h));
        screens.push_str("</g>\n");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w:.0} {h:.0}\" width=\"{w:.0}\" height=\"{h:.0}\">\n\
         <style>\n{}</style>\n<defs>\n{shared}</defs>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n{screens}</svg>\n",
        style(frames)
    )
}

/// The CSS that times the screens. Without animation, or if the reader prefers reduced motion, the first one is shown.
fn style(frames: &[Frame]) -> String {
    let whole: f32 = frames.iter().map(|frame| frame.seconds).sum();
    let mut css = format!(
        "text{{white-space:pre;font:14px ui-monospace,'JetBrains Mono',Menlo,'DejaVu Sans Mono',monospace}}\n\
         .b{{font-weight:bold}}.d{{opacity:.6}}.u{{text-decoration:underline}}\n\
         .f{{visibility:hidden;animation:{whole}s step-end infinite}}\n#f0{{visibility:visible}}\n"
    );
    let mut from = 0.0;
    for (number, frame) in frames.iter().enumerate() {
        let until = from + frame.seconds;
        let (begin, end) = (from / whole * 100.0, until / whole * 100.0);
        let hidden = if number == 0 { "" } else { "0%{visibility:hidden}" };
        writeln!(
            css,
            "#f{number}{{animation-name:k{number}}}\
             @keyframes k{number}{{{hidden}{begin:.2}%{{visibility:visible}}{end:.2}%{{visibility:hidden}}}}"
        )
        .unwrap();
        from = until;
    }
    css.push_str("@media (prefers-reduced-motion:reduce){.f{animation:none}}\n");
    css
}

/// The line below the terminal.
fn caption(frame: &Frame, height: f32) -> String {
    let (top, left) = (height - CAPTION, MARGIN + CELL.0);
    let keys = frame.keys.chars().count() as f32 * CELL.0;
    let mut out = String::new();
    let mut after = left;
    if keys > 0.0 {
        write!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"24\" rx=\"5\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{}\" fill=\"{BACKGROUND}\" class=\"b\">{}</text>",
            keys + 14.0,
            PALETTE[11],
            left + 7.0,
            top + 17.0,
            escaped(frame.keys)
        )
        .unwrap();
        after += keys + 26.0;
    }
    let text = escaped(frame.caption);
    writeln!(out, "<text x=\"{after:.1}\" y=\"{}\" fill=\"{}\">{text}</text>", top + 17.0, PALETTE[15])
        .unwrap();
    out
}

fn one_row(screen: &vt100::Screen, row: u16) -> String {
    let (width, height, baseline) = CELL;
    let columns = screen.size().1.get();
    let (mut out, mut column) = (String::new(), 0);
    while column < columns {
        // A run of cells with the same style is one element.
        let style = |c: &vt100::Cell| (colours(c), c.bold(), c.dim(), c.underline());
        let first = style(screen.cell(row, column).unwrap());
        let (mut text, mut end) = (String::new(), column);
        while let Some(cell) = screen.cell(row, end).filter(|c| style(c) == first) {
            match cell.contents() {
                _ if cell.is_wide_continuation() => {}
                "" => text.push(' '),
                content => text.push_str(content),
            }
            end += 1;
        }
        let ((front, back), bold, dim, underline) = first;
        let left = MARGIN + f32::from(column) * width;
        if let Some(back) = back {
            let run = f32::from(end - column) * width;
            write!(out, "<rect x=\"{left:.1}\" width=\"{run:.1}\" height=\"{height}\" fill=\"{back}\"/>")
                .unwrap();
        }
        let blank = text.chars().take_while(|c| *c == ' ').count();
        let text = text.trim();
        if !text.is_empty() {
            let left = left + blank as f32 * width;
            let run = text.chars().count() as f32 * width;
            let classes = [(bold, "b"), (dim, "d"), (underline, "u")];
            let classes: Vec<&str> = classes.into_iter().filter(|(set, _)| *set).map(|(_, c)| c).collect();
            let class =
                if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
            write!(
                out,
                "<text x=\"{left:.1}\" y=\"{baseline}\" textLength=\"{run:.1}\" fill=\"{front}\"{class}>{}</text>",
                escaped(text)
            )
            .unwrap();
        }
        column = end;
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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

/// The text of an animation: for each screen, its rows and its caption from the top, without blank rows.
pub fn screens(svg: &str) -> Vec<Vec<String>> {
    let regex = |text: &str| Regex::new(text).unwrap();
    let text = regex(r"<text[^>]*>([^<]*)</text>");
    let words =
        |markup: &str| text.captures_iter(markup).map(|t| t[1].to_owned()).collect::<Vec<_>>().join(" ");
    let shared: HashMap<String, String> = regex(r#"<g id="(r[0-9]+)">(.*)</g>"#)
        .captures_iter(svg)
        .map(|row| (row[1].to_owned(), words(&row[2])))
        .collect();
    let reference = regex(r##"<use href="#(r[0-9]+)""##);
    let screen = |frame: &str| {
        let line = |line| match reference.captures(line) {
            Some(row) => shared[&row[1]].clone(),
            None => words(line),
        };
        frame.lines().map(line).filter(|line| !line.is_empty()).collect()
    };
    svg.split("class=\"f\">").skip(1).map(screen).collect()
}
