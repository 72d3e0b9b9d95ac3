//! The way to the page on the screen, and the one before it.

use super::view::View;

/// The pages that lead to the one on the screen.
#[derive(Debug)]
pub(super) struct PageStack {
    /// From the first page to the one on the screen, as Esc goes back.
    pages: Vec<View>,
    /// The pages before these, for the key that goes back and forth.
    before: Vec<View>,
}

impl PageStack {
    /// Begins at a page.
    pub fn from(first: View) -> Self {
        Self { pages: vec![first.clone()], before: vec![first] }
    }

    /// The pages, the one on the screen last.
    pub fn pages(&self) -> &[View] {
        &self.pages
    }

    /// The same, whose own state changes.
    pub fn pages_mut(&mut self) -> &mut [View] {
        &mut self.pages
    }

    /// The page on the screen.
    pub fn page(&self) -> &View {
        self.pages.last().unwrap_or(&View::Clusters)
    }

    /// The same, whose own state changes.
    pub fn page_mut(&mut self) -> Option<&mut View> {
        self.pages.last_mut()
    }

    /// The pages with that one on the screen: not over itself, nor over one that was opened from it.
    pub fn to(&self, page: View) -> Vec<View> {
        match self.pages.iter().position(|open| *open == page) {
            Some(at) => self.pages[..=at].to_vec(),
            None => self.over(page),
        }
    }

    /// The pages with that one over the others, even where the same stands below.
    pub fn over(&self, page: View) -> Vec<View> {
        self.pages.iter().cloned().chain([page]).collect()
    }

    /// The pages without the one on the screen; none where that is the first.
    pub fn back(&self) -> Option<Vec<View>> {
        let (_, below) = self.pages.split_last()?;
        (!below.is_empty()).then(|| below.to_vec())
    }

    /// The pages that were left last.
    pub fn before(&self) -> Vec<View> {
        self.before.clone()
    }

    /// Goes to these pages.
    pub fn go(&mut self, pages: Vec<View>) {
        self.before = std::mem::replace(&mut self.pages, pages);
    }

    /// Forgets the first page: a single cluster has no fleet above it.
    pub fn clear(&mut self) {
        self.pages.clear();
    }
}
