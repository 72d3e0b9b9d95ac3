//! The way to a line that a search of the whole log has found.

use super::lens::Filter;
use super::view::LogView;
use crate::model::Line;

/// Where a line of the whole log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is held, and shown now.
    Here,
    /// It is so many bytes above what is held; it is shown as soon as what lies between is read.
    Above(u64),
    /// It is farther above than a log may take in memory, in bytes.
    TooFar(u64),
    /// It is no longer where it was: the file was replaced, or the line was dropped.
    Gone,
}

impl LogView {
    /// Goes to the newest line that is held and has, or begins with, this text. A filter that hides it ends. Whether
    /// there is one.
    pub fn go_to_text(&mut self, text: &str) -> bool {
        self.aim = None;
        let found = (0..self.held.len())
            .rev()
            .find(|place| self.held.get(*place).is_some_and(|line| line.text().starts_with(text)));
        if let Some(place) = found {
            self.go_to_shown(self.held.first() + place as u64);
        }
        found.is_some()
    }

    /// Goes to a line that is held. What hides it ends.
    pub(super) fn go_to_shown(&mut self, number: u64) {
        if !self.lens.is_shown(number) {
            self.set_filter(Filter::default());
            self.show_levels(None);
            self.show_since(None);
        }
        self.go_to(number);
    }

    /// Goes to the line at that position of the log that has, or begins with, this text. A filter that hides it ends.
    pub fn go_to_match(&mut self, at: u64, text: &str) -> Place {
        self.aim = None;
        if let Some(start) = self.held.start().filter(|start| at < *start) {
            let above = start - at;
            if above > self.memory as u64 {
                return Place::TooFar(above);
            }
            self.show(0);
            self.aim = Some((at, text.to_owned()));
            return Place::Above(above);
        }
        let Some(numbers) = self.held.around(at) else { return Place::Gone };
        let is_it = |line: &Line| line.text().starts_with(text);
        let found = numbers.into_iter().find(|n| self.held.get(self.held.place(*n)).is_some_and(is_it));
        let Some(number) = found else { return Place::Gone };
        self.go_to_shown(number);
        Place::Here
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{first, part, take, view};
    use super::*;
    use crate::model::StreamId;

    #[test]
    fn a_line_above_is_gone_to_once_it_is_read() {
        let mut view = view(0);
        take(&mut view, 500..600);
        assert_eq!(view.go_to_match(5200, "line 520"), Place::Here);
        assert_eq!((first(&view), view.is_at(20)), ("line 520", true));
        assert_eq!(view.go_to_match(5200, "another"), Place::Gone);
        view.set_filter(Filter::parse("5$").unwrap());
        assert_eq!((view.go_to_match(5250, "line 525"), view.len()), (Place::Here, 10));
        assert_eq!((view.go_to_match(5200, "line 520"), view.len()), (Place::Here, 100), "it is not hidden");
        assert_eq!(view.go_to_match(4050, "line 405"), Place::Above(950));
        assert_eq!(view.ask_older(), Some(5000));
        view.take_older(StreamId(1), Ok(part(450..500)));
        assert_eq!(view.ask_older(), Some(4500), "it goes on until it is there");
        view.take_older(StreamId(1), Ok(part(400..450)));
        assert_eq!(first(&view), "line 405");
        assert_eq!(view.ask_older(), None);
        assert!(view.go_to_text("line 55") && first(&view) == "line 559" && !view.go_to_text("nowhere"));
        view.limit(1000);
        assert_eq!(view.go_to_match(10, "line 001"), Place::TooFar(3990));
    }
}
