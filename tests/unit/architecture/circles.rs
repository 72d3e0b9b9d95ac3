//! The dependencies between the files of `src/`, read from the tokens of the code: which file names what another
//! defines.
//!
//! A path counts for the file that defines its item, through any number of `pub use`, so that a re-export neither hides
//! a dependency nor adds one if it only passes a name on from below. Methods cannot be resolved: only names count.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below `src/`, without `crate`; empty for the crate itself.
type Module = Vec<String>;

/// What a file defines, imports and names.
#[derive(Default)]
struct File {
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    /// The name in this file and the path that it refers to.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths in `use` lines and in code.
    named: BTreeSet<Vec<String>>,
}

/// For each file, by its path below `src/`: the files whose items it names, with those names.
pub type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Reads the crate at `src`.
pub fn arrows(src: &Path) -> Arrows {
    let mut files = BTreeMap::new();
    read(src, &["lib".to_owned()], &mut files);
    resolved(&files)
}

/// Reads the file of a module and those of its children; `module` begins with the name of the crate's first file.
fn read(src: &Path, module: &[String], files: &mut BTreeMap<Module, File>) {
    let below = if module.len() == 1 { module } else { &module[1..] };
    let text = fs::read_to_string(src.join(below.join("/")).with_extension("rs")).expect("a declared module");
    let file = parsed(&text);
    for child in &file.children {
        read(src, &[module, std::slice::from_ref(child)].concat(), files);
    }
    files.insert(module[1..].to_vec(), file);
}

fn parsed(text: &str) -> File {
    let tokens: TokenStream = text.parse().expect("the compiler has read it");
    let mut file = File::default();
    outside(&tokens.into_iter().collect::<Vec<_>>(), &mut file);
    file
}

/// The items of a file, without those under `#[cfg(test)]`.
fn outside(tokens: &[TokenTree], file: &mut File) {
    let mut rest = tokens;
    while let Some(length) = item(rest) {
        let (this, after) = rest.split_at(length);
        rest = after;
        let attributes =
            this.iter().take_while(|t| is_mark(t, '#') || group(t, Delimiter::Bracket).is_some());
        if attributes.filter_map(|t| group(t, Delimiter::Bracket)).any(|a| a.to_string() == "cfg (test)") {
            continue;
        }
        define(this, file);
        inside(this, file);
        for body in macro_bodies(this) {
            define_in_macro(&body, file);
        }
    }
}

/// The bodies of the arms of a `macro_rules!` item; none for any other item.
fn macro_bodies(item: &[TokenTree]) -> Vec<Vec<TokenTree>> {
    let [.., arms] = item else { return Vec::new() };
    let Some(arms) = group(arms, Delimiter::Brace).filter(|_| item.iter().any(is_macro_rules)) else {
        return Vec::new();
    };
    let arms: Vec<TokenTree> = arms.into_iter().collect();
    let bodies = arms.iter().enumerate().filter(|(at, _)| *at > 0 && is_mark(&arms[at - 1], '>'));
    bodies.filter_map(|(_, t)| group(t, Delimiter::Brace)).map(|body| body.into_iter().collect()).collect()
}

fn is_macro_rules(token: &TokenTree) -> bool {
    word(token).is_some_and(|w| w == "macro_rules")
}

/// Records the items that a macro of this file defines: they belong to the file, wherever their rows are.
fn define_in_macro(body: &[TokenTree], file: &mut File) {
    let mut rest = body;
    while let Some(length) = item(rest) {
        let (this, after) = rest.split_at(length);
        define(this, file);
        rest = after;
    }
}

/// The number of tokens of the first item: up to its `;` or its braces; `None` at the end.
fn item(tokens: &[TokenTree]) -> Option<usize> {
    let imports = (0..tokens.len()).position(|at| imports(&tokens[at..]));
    let ends = |(i, t): &(usize, &TokenTree)| {
        let braces = group(t, Delimiter::Brace).is_some() && imports.is_none_or(|u| u > *i);
        let value = tokens.get(i + 1).is_some_and(|next| is_mark(next, ';'));
        is_mark(t, ';') || (braces && !value)
    };
    let end = tokens.iter().enumerate().find(ends).map(|(i, _)| i + 1);
    end.or((!tokens.is_empty()).then_some(tokens.len()))
}

/// Records the name that an item defines, or the child that it declares.
fn define(item: &[TokenTree], file: &mut File) {
    const KINDS: &[&str] = &["struct", "enum", "union", "trait", "type", "fn", "static", "const"];
    let words: Vec<String> =
        item.iter().map_while(|t| (!is_mark(t, '=')).then(|| word(t))).flatten().collect();
    let Some(at) = words
        .iter()
        .position(|w| KINDS.contains(&w.as_str()) || ["mod", "impl", "use"].contains(&w.as_str()))
    else {
        return;
    };
    let name = words[at + 1..].iter().find(|w| !KINDS.contains(&w.as_str()) && *w != "unsafe");
    match (words[at].as_str(), name) {
        ("mod", Some(name)) if item.last().is_some_and(|t| is_mark(t, ';')) => {
            file.children.insert(name.clone());
        }
        // A module with a body is part of this file.
        ("impl" | "use", _) | (_, None) => {}
        (_, Some(name)) => {
            file.items.insert(name.clone());
        }
    }
}

/// Records the paths in some tokens, at any depth.
fn inside(tokens: &[TokenTree], file: &mut File) {
    let mut at = 0;
    while at < tokens.len() {
        let method = at > 0 && is_mark(&tokens[at - 1], '.');
        match &tokens[at] {
            TokenTree::Group(g) => inside(&g.stream().into_iter().collect::<Vec<_>>(), file),
            TokenTree::Ident(_) if imports(&tokens[at..]) => {
                let end = tokens[at..].iter().position(|t| is_mark(t, ';')).map_or(tokens.len(), |n| at + n);
                import(&tokens[at + 1..end], &[], file);
                at = end;
            }
            TokenTree::Ident(_) if !method => {
                let path = path(&tokens[at..]);
                // Two colons separate two names.
                at += 3 * (path.len() - 1);
                if path.len() > 1 {
                    file.named.insert(path);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether an import begins here; `use<'a>` in a type is not one.
fn imports(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [first, second, ..] if word(first).is_some_and(|w| w == "use") && !is_mark(second, '<'))
}

/// The names joined by `::` that begin here.
fn path(tokens: &[TokenTree]) -> Vec<String> {
    let mut names: Vec<String> = tokens.first().and_then(word).into_iter().collect();
    let mut rest = &tokens[1..];
    while let [a, b, name, after @ ..] = rest
        && is_mark(a, ':')
        && is_mark(b, ':')
        && let Some(name) = word(name)
    {
        names.push(name);
        rest = after;
    }
    names
}

/// Records the imports of a `use` tree, below `prefix`.
fn import(tree: &[TokenTree], prefix: &[String], file: &mut File) {
    for branch in tree.split(|t| is_mark(t, ',')) {
        let Some(first) = branch.first() else { continue };
        let names = if word(first).is_some() { path(branch) } else { Vec::new() };
        let (mut full, rest) = ([prefix, &names].concat(), &branch[(names.len() * 3).saturating_sub(2)..]);
        if let Some(inner) = branch.last().and_then(|t| group(t, Delimiter::Brace)) {
            import(&inner.into_iter().collect::<Vec<_>>(), &full, file);
            continue;
        }
        if full.last().is_some_and(|n| n == "self") && full.len() > 1 {
            full.pop();
        }
        let renamed = match rest {
            [.., a, name] if word(a).is_some_and(|a| a == "as") => word(name),
            _ => full.last().cloned(),
        };
        file.imports.insert(renamed.unwrap_or_default(), full.clone());
        file.named.insert(full);
    }
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == mark)
}

fn group(token: &TokenTree, by: Delimiter) -> Option<TokenStream> {
    if let TokenTree::Group(g) = token { (g.delimiter() == by).then(|| g.stream()) } else { None }
}

fn resolved(files: &BTreeMap<Module, File>) -> Arrows {
    let mut arrows = Arrows::new();
    for (module, file) in files {
        let out = arrows.entry(file_of(module)).or_default();
        for named in &file.named {
            if let Some((definer, item)) = definer(files, module, named, 0)
                && definer != *module
            {
                out.entry(file_of(&definer)).or_default().insert(item);
            }
        }
    }
    arrows
}

/// The module that defines the item at a path as written in `from`, and the item's name.
fn definer(
    files: &BTreeMap<Module, File>,
    from: &[String],
    path: &[String],
    depth: usize,
) -> Option<(Module, String)> {
    // Names that refer to each other in a cycle belong to another crate, under a name of our own.
    if depth > 16 {
        return None;
    }
    let mut at = from.to_vec();
    for (n, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" | "marin_tui" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            _ => {
                let file = files.get(&at)?;
                if file.children.contains(name) {
                    at.push(name.clone());
                } else if file.items.contains(name) {
                    return Some((at, name.clone()));
                } else {
                    let import = file.imports.get(name).filter(|import| **import != path)?;
                    let longer = [import, &path[n + 1..]].concat();
                    return definer(files, &at, &longer, depth + 1);
                }
            }
        }
    }
    None
}

/// The file of a module, below `src/`.
fn file_of(module: &[String]) -> String {
    if module.is_empty() { "lib.rs".to_owned() } else { module.join("/") + ".rs" }
}

/// Groups of files that depend on each other in a cycle, each group sorted.
pub fn circles(arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|from| (from, reach(arrows, from))).collect();
    let with = |from: &String| -> Vec<String> {
        let back = |to: &&String| reached.get(*to).is_some_and(|r| r.contains(from));
        reached[from].iter().copied().filter(back).cloned().collect()
    };
    arrows.keys().map(with).filter(|circle| !circle.is_empty()).collect()
}

fn reach<'a>(arrows: &'a Arrows, from: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for to in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}
