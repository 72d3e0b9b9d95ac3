//! Colours of text, as programs set them with the escape sequence SGR (ECMA-48, 8.3.117; ISO 8613-6 for 256 and direct
//! colours).

/// A colour of an SGR sequence: one of the terminal's own, or 24-bit (ECMA-48, ITU T.416).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One of a terminal's 256; the first 16 are the terminal's own.
    Indexed(u8),
    /// Red, green, blue.
    Direct(u8, u8, u8),
}

/// How text is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is set and taken back by a parameter of its own")]
pub struct Look {
    /// Colour of the letters; none for the terminal's own.
    pub colour: Option<Colour>,
    /// Colour behind them.
    pub behind: Option<Colour>,
    /// Bold.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Both colours exchanged.
    pub reverse: bool,
}

impl Look {
    /// Applies the parameters of one SGR sequence, `1;38;5;214`. Parameters that are unknown, concealed or blinking
    /// text among them, change nothing: nothing that a program writes is hidden.
    pub fn apply(&mut self, parameters: &str) {
        // Anything else is a private sequence that happens to end with the same letter, e.g. xterm's `CSI > 4 ; 1 m`.
        if parameters.contains(|c: char| !c.is_ascii_digit() && c != ';' && c != ':') {
            return;
        }
        let mut left =
            parameters.split([';', ':']).map(|p| if p.is_empty() { Some(0) } else { p.parse::<u16>().ok() });
        while let Some(parameter) = left.next() {
            let Some(parameter) = parameter else { continue };
            match parameter {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underline = true,
                7 => self.reverse = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.reverse = false,
                30..=37 => self.colour = Some(Colour::Indexed((parameter - 30) as u8)),
                38 => self.colour = further(&mut left).or(self.colour),
                39 => self.colour = None,
                40..=47 => self.behind = Some(Colour::Indexed((parameter - 40) as u8)),
                48 => self.behind = further(&mut left).or(self.behind),
                49 => self.behind = None,
                90..=97 => self.colour = Some(Colour::Indexed((parameter - 90 + 8) as u8)),
                100..=107 => self.behind = Some(Colour::Indexed((parameter - 100 + 8) as u8)),
                _ => {}
            }
        }
    }

    /// Whether it is plain text.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// The colour that follows 38 or 48: `5;N` or `2;R;G;B`.
fn further(left: &mut impl Iterator<Item = Option<u16>>) -> Option<Colour> {
    let mut next = || left.next()?.and_then(|n| u8::try_from(n).ok());
    match next()? {
        5 => next().map(Colour::Indexed),
        2 => Some(Colour::Direct(next()?, next()?, next()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(parameters: &str) -> Look {
        let mut look = Look::default();
        look.apply(parameters);
        look
    }

    #[test]
    fn colours_of_all_kinds_are_read() {
        assert_eq!(look("31").colour, Some(Colour::Indexed(1)));
        assert_eq!(look("1;97"), Look { bold: true, colour: Some(Colour::Indexed(15)), ..Look::default() });
        assert_eq!(
            look("38;5;214;4"),
            Look { underline: true, colour: Some(Colour::Indexed(214)), ..Look::default() }
        );
        assert_eq!(look("48:2:1:2:3").behind, Some(Colour::Direct(1, 2, 3)));
    }

    #[test]
    fn a_reset_is_plain_and_what_is_unknown_changes_nothing() {
        let mut all = look("1;2;3;4;7;31;42");
        all.apply("8;5;999;38;9");
        all.apply(">0");
        assert_eq!(all, look("1;2;3;4;7;31;42"));
        for reset in ["", "0", "22;23;24;27;39;49"] {
            let mut look = all;
            look.apply(reset);
            assert!(look.is_plain(), "{reset}");
        }
    }
}
