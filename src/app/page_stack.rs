//! The path to the page on the screen, and the previous one.

use super::pages::details::Details;
use super::view::View;

/// The pages that lead to the one on the screen.
#[derive(Debug)]
pub(super) struct PageStack {
    /// From the first page to the one on the screen, in the order in which Esc goes back.
    pages: Vec<View>,
    /// The previous stack, for the key that switches back and forth.
    before: Vec<View>,
}

impl PageStack {
    /// A stack with one page.
    pub fn from(first: View) -> Self {
        Self { pages: vec![first.clone()], before: vec![first] }
    }

    /// The pages; the one on the screen is last.
    pub fn pages(&self) -> &[View] {
        &self.pages
    }

    /// Mutable access to the details pages of both stacks, for answers to what they show.
    pub fn all_details_mut(&mut self) -> impl Iterator<Item = &mut Details> {
        self.pages.iter_mut().chain(&mut self.before).filter_map(View::details_mut)
    }

    /// The details page on the screen, if it is one.
    pub fn details(&self) -> Option<&Details> {
        self.page().details()
    }

    /// The same, mutable.
    pub fn details_mut(&mut self) -> Option<&mut Details> {
        self.page_mut()?.details_mut()
    }

    /// The page on the screen.
    pub fn page(&self) -> &View {
        self.pages.last().unwrap_or(&View::Clusters)
    }

    /// Mutable access to the page on the screen.
    pub fn page_mut(&mut self) -> Option<&mut View> {
        self.pages.last_mut()
    }

    /// The stack with this page on top. If it is already open, the pages over it are removed.
    pub fn to(&self, page: View) -> Vec<View> {
        match self.pages.iter().position(|open| *open == page) {
            Some(at) => self.pages[..=at].to_vec(),
            None => self.over(page),
        }
    }

    /// The stack with this page on top, even if the same page is already in it.
    pub fn over(&self, page: View) -> Vec<View> {
        self.pages.iter().cloned().chain([page]).collect()
    }

    /// The stack without its top page; `None` if that is the only one.
    pub fn back(&self) -> Option<Vec<View>> {
        let (_, below) = self.pages.split_last()?;
        (!below.is_empty()).then(|| below.to_vec())
    }

    /// The previous stack.
    pub fn before(&self) -> Vec<View> {
        self.before.clone()
    }

    /// Replaces the stack. The first page of a single cluster has no page before it.
    pub fn go(&mut self, pages: Vec<View>) {
        let before = std::mem::replace(&mut self.pages, pages);
        self.before = if before.is_empty() { self.pages.clone() } else { before };
    }

    /// Removes all pages: a single cluster has no fleet page under it.
    pub fn clear(&mut self) {
        self.pages.clear();
    }
}
