//! `disk node servers`: `[node.servers]` from what Kubernetes knows of its nodes, each checked against the cloud.

use super::configured::Configured;
use super::terminal::Stage;
use crate::cloud::openstack::ids_in_firmware;
use crate::driver::Context;
use crate::host::files;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::{NodeName, ServerId};
use crate::model::text::visible;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::stdin;
use std::os::fd::AsFd;
use std::time::Duration;

/// A cloud is asked once or twice for each node.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct NodeList {
    items: Vec<Value>,
}

impl NodeList {
    /// Each node's name, and the servers that it may be.
    fn nodes(&self) -> serde_json::Result<Vec<(NodeName, Vec<ServerId>)>> {
        let name = |node: &Value| NodeName::deserialize(&node["metadata"]["name"]);
        self.items.iter().map(|node| Ok((name(node)?, candidates(node)))).collect()
    }
}

/// The servers that a node may be, the likeliest first. A provider's id ends with the server's:
/// `openstack://region/id`.
fn candidates(node: &Value) -> Vec<ServerId> {
    let (_, id) = node["spec"]["providerID"]
        .as_str()
        .unwrap_or_default()
        .rsplit_once('/')
        .unwrap_or_default();
    match ids_in_firmware(id).into_iter().next() {
        Some(provided) => vec![provided],
        None => {
            ids_in_firmware(node["status"]["nodeInfo"]["systemUUID"].as_str().unwrap_or_default())
        }
    }
}

/// Prints the table; the exit status is 1 if a node is left out.
pub(super) fn run(words: &[String], stage: &mut Stage<'_>) -> Result<u8> {
    let read = |file: File| files::read_rest(file, files::LONGEST_OF_KERNEL, 0);
    let text = match words {
        [] => stdin().as_fd().try_clone_to_owned().map(File::from).and_then(read),
        [path] if !path.starts_with('-') => File::open(path).and_then(read),
        _ => return Err(Error::bad_call("usage: kubectl get nodes -o json | disk node servers")),
    };
    let text = text.map_err(|error| Error::io("read the list of nodes", &error))?;
    let nodes = serde_json::from_slice(&text).and_then(|list: NodeList| list.nodes());
    let nodes = nodes.map_err(|error| {
        Error::new(Kind::Config, format!("this is no list of nodes in JSON: {error}"))
            .hint("kubectl get nodes -o json | disk node servers")
    })?;
    let configured = Configured::read();
    let found = configured.with_patient_context("node servers", PATIENCE, |cx| {
        if !cx.cloud.capabilities().is_remote {
            return Err(Error::new(
                Kind::Config,
                "the local cloud has no servers to check nodes against",
            )
            .hint("set cloud.kind to the cloud of these nodes"));
        }
        nodes.iter().map(|(node, candidates)| Ok((node, seen(cx, candidates)?))).collect()
    })?;
    let (table, is_whole) = table(found);
    stage.say(&table);
    Ok(u8::from(!is_whole))
}

/// The server that a node is, and its name in the cloud; or why it is not known.
fn seen(
    cx: &Context<'_>,
    candidates: &[ServerId],
) -> Result<std::result::Result<(ServerId, String), String>> {
    for id in candidates {
        if let Some(view) = cx.cloud.server_view(id, cx.deadline)? {
            return Ok(Ok((id.clone(), view.name.unwrap_or_default())));
        }
    }
    let ids: Vec<_> = candidates.iter().map(ServerId::as_str).collect();
    Ok(Err(match ids.as_slice() {
        [] => "it has neither a providerID nor a systemUUID that is a server's id".to_owned(),
        several => format!("the cloud has no server {}", several.join(" or ")),
    }))
}

type Found<'n> = Vec<(&'n NodeName, std::result::Result<(ServerId, String), String>)>;

fn table(found: Found<'_>) -> (String, bool) {
    let mut of_server: BTreeMap<ServerId, Vec<&NodeName>> = BTreeMap::new();
    for (node, server) in &found {
        if let Ok((id, _)) = server {
            of_server.entry(id.clone()).or_default().push(node);
        }
    }
    let mut text = "[node.servers]\n".to_owned();
    let mut is_whole = true;
    for (node, server) in found {
        let line = server.and_then(|(id, name)| {
            let others = of_server[&id].iter().filter(|other| **other != node);
            match others.map(|other| other.as_str()).collect::<Vec<_>>().as_slice() {
                [] => Ok(format!("\"{node}\" = \"{id}\" # {}\n", visible(&name))),
                others => Err(format!("server {id} is also that of {}", others.join(", "))),
            }
        });
        is_whole &= line.is_ok();
        text += &line.unwrap_or_else(|why| format!("# {node} is left out: {why}\n"));
    }
    (text, is_whole)
}
