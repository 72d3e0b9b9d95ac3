//! A search through the ends of many files of a cluster, read through the head's dashboard, at most eight at a time: what
//! `cluster-logs` and the console's search of all clusters have in common.

use super::out::Out;
use crate::logs::{Clock, LineSplitter, Pattern, Times};
use crate::model::{
    FileMatches, FileSearch, FileSearchNews, Line, LineMatch, News, NodeId, SearchTally, Text, Timestamp,
};
use crate::ray::{AT_ONCE, Client, EMPTY_OR_FAILED, LogFiles, RayError};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use std::time::Duration;
use tokio::time::Instant;

/// Lines above one that matches that are told with it.
const ABOVE: usize = 16;
/// Pause between two words on what was found.
const PAUSE: Duration = Duration::from_millis(250);

/// Lists the files of these nodes that match a glob, without folders, in the order of the nodes.
pub fn list_files<'a>(
    client: &'a Client,
    globs: Vec<(NodeId, &'a str)>,
) -> BoxStream<'a, (NodeId, Result<Vec<Text>, RayError>)> {
    let lists = globs.into_iter().map(move |(node, glob)| async move {
        let listed = client.log_files(node, glob).await;
        let names = |files: LogFiles| files.0.into_iter().flat_map(|(_, names)| names);
        // Ray lists folders with a `/` behind them.
        let is_file = |name: &Text| !name.raw().ends_with('/');
        (node, listed.map(|files| names(files).filter(is_file).collect()))
    });
    stream::iter(lists.collect::<Vec<_>>()).buffered(AT_ONCE).boxed()
}

/// Reads the last lines of these files, in their order. An error of a file may mean that it is empty
/// ([`RayError::may_mean_empty`]).
pub fn read_ends<'a>(
    client: &'a Client,
    files: &'a [(NodeId, Text)],
    lines: u32,
) -> BoxStream<'a, (NodeId, &'a Text, Result<Bytes, RayError>)> {
    let reads = files
        .iter()
        .map(move |(node, name)| async move { (*node, name, client.read_log(*node, name, lines).await) });
    stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).boxed()
}

/// The lines of a file's end, each cut after so many bytes, and whether the file may have more than so many lines.
pub fn lines_of(bytes: &[u8], longest: usize, asked: u32) -> (Vec<Line>, bool) {
    let mut splitter = LineSplitter::new(longest);
    let mut all = splitter.push(bytes);
    all.extend(splitter.finish());
    let is_full = bytes.split(|b| *b == b'\n').count() > asked.max(1) as usize;
    (all, is_full)
}

/// Carries a search out and tells what it finds while it goes on.
pub async fn sweep(client: Option<Client>, sweep: FileSearch, out: Out) {
    let last = match client {
        None => FileSearchNews::Failed("the cluster is not connected".to_owned()),
        Some(client) => match search(&client, &sweep, &out).await {
            Ok(tally) => FileSearchNews::Done(tally),
            Err(why) => FileSearchNews::Failed(why),
        },
    };
    out.send(News::FileSearchNews(sweep.id, last)).await;
}

async fn search(client: &Client, sweep: &FileSearch, out: &Out) -> Result<SearchTally, String> {
    let pattern = Pattern::parse(&sweep.pattern).map_err(|e| e.to_string())?;
    let zone = client.zone().await.unwrap_or_default();
    let mut tally = SearchTally::default();
    let mut files = Vec::new();
    let globs = sweep.files.iter().map(|(node, glob)| (*node, glob.as_str())).collect();
    let mut lists = list_files(client, globs);
    while let Some((node, listed)) = lists.next().await {
        match listed {
            Ok(names) => files.extend(names.into_iter().map(|name| (node, name))),
            Err(e) if e.is_token() => return Err(e.to_string()),
            Err(e) => tally.incomplete.push(format!("cannot list the files of node {node}: {e}")),
        }
    }
    let (mut found, mut empty, mut told_at) = (Vec::new(), 0, Instant::now());
    let mut reads = read_ends(client, &files, sweep.lines);
    while let Some((node, name, bytes)) = reads.next().await {
        match bytes {
            Ok(bytes) => {
                let (lines, is_full) = lines_of(&bytes, LineSplitter::ON_A_SCREEN, sweep.lines);
                let clock = Clock { near: Timestamp::now(), east: zone };
                let (lines, more) = matching(&lines, &pattern, clock, sweep.most);
                (tally.files, tally.full) = (tally.files + 1, tally.full + usize::from(is_full));
                if !lines.is_empty() {
                    found.push(FileMatches { node, name: name.clone(), lines, more });
                }
            }
            Err(e) if e.may_mean_empty() => (tally.files, empty) = (tally.files + 1, empty + 1),
            Err(e) if e.is_token() => return Err(e.to_string()),
            Err(e) => tally.incomplete.push(format!("cannot read {name} of node {node}: {e}")),
        }
        if told_at.elapsed() >= PAUSE && !found.is_empty() {
            out.send(News::FileSearchNews(sweep.id, FileSearchNews::Found(std::mem::take(&mut found)))).await;
            told_at = Instant::now();
        }
    }
    if !found.is_empty() {
        out.send(News::FileSearchNews(sweep.id, FileSearchNews::Found(found))).await;
    }
    if empty > 0 && empty == tally.files {
        tally.incomplete.push(EMPTY_OR_FAILED.to_owned());
    }
    Ok(tally)
}

/// The last lines that match, and how many before them do.
fn matching(lines: &[Line], pattern: &Pattern, clock: Clock, most: usize) -> (Vec<LineMatch>, usize) {
    let mut times = Times::new(clock);
    let dated: Vec<Option<Timestamp>> = lines.iter().map(|line| times.next(line.text())).collect();
    let all: Vec<usize> = (0..lines.len()).filter(|at| pattern.is_match(lines[*at].text())).collect();
    let more = all.len().saturating_sub(most);
    let told = all[more..].iter().map(|at| LineMatch {
        line: lines[*at].clone(),
        time: dated[*at],
        above: lines[at.saturating_sub(ABOVE)..*at].iter().map(|line| line.text().to_owned()).collect(),
    });
    (told.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matches_are_told_with_what_stands_above_them() {
        let text = b"2026-11-23 09:00:01 INFO a\nboom 1\n2026-11-23 09:00:02 INFO b\nboom 2\nboom 3";
        let (lines, is_full) = lines_of(text, LineSplitter::ON_A_SCREEN, 5);
        assert_eq!((lines.len(), is_full), (5, false));
        assert!(lines_of(text, LineSplitter::ON_A_SCREEN, 4).1, "it may have more");
        let clock = Clock::utc(Timestamp::from_millis(1_795_424_400_000));
        let (found, more) = matching(&lines, &Pattern::parse("boom").unwrap(), clock, 2);
        let texts: Vec<&str> = found.iter().map(|found| found.line.text()).collect();
        assert_eq!((texts, more), (vec!["boom 2", "boom 3"], 1));
        assert_eq!(found[0].above.last().unwrap(), "2026-11-23 09:00:02 INFO b");
        assert_eq!(found[1].time, Some(Timestamp::from_millis(1_795_424_402_000)), "that of the line above");
    }
}
