//! `POST` and `DELETE os-volume_attachments`: what is checked in which order, and what is said.

use super::super::handle::Asked;
use super::super::reply::{Answer, Refusal, Reply};
use super::super::world::World;
use super::Server;
use super::body;
use super::host::{Operation, Work};
use serde_json::json;
use std::time::Duration;

/// An attach that waits for the host to reserve a device.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    server: String,
    volume: String,
}

impl World {
    /// The first half of an attach: all checks, then the host is asked for a device.
    pub fn begin_attach(&mut self, asked: &Asked<'_>, server: &str) -> Result<Ticket, Refusal> {
        let wanted = body::read(&asked.request.body)?;
        asked.writer("os_compute_api:os-volumes-attachments:create")?;
        let known = self.server_asked(asked, server)?;
        check_state(asked, known, "attach_volume")?;
        let volume = self.volume_asked(asked, &wanted)?;
        if volume.multiattach && asked.minor < 60 {
            return Err(Refusal::bad(
                "Multiattach volumes are only supported starting with compute API version 2.60.",
            ));
        }
        // Nova looks at its own rows first, also at ghosts (B13, B16, K4).
        let having = self.compute.servers_with(&wanted);
        if !volume.multiattach && !having.is_empty() {
            return Err(Refusal::bad(format!(
                "Invalid volume: volume {wanted} is already attached to instances: {}",
                having.join(", ")
            )));
        }
        let number = self.enqueue(operation(asked, server, &wanted, Work::Reserve));
        Ok(Ticket { number, server: server.to_owned(), volume: wanted })
    }

    /// Whether the host has answered.
    pub fn is_answered(&self, ticket: &Ticket) -> bool {
        let operation = self.hosts.operations.get(&ticket.number);
        operation.is_none_or(|operation| {
            operation.outcome.is_some() && self.clock.now() >= operation.recorded
        })
    }

    /// The second half: the volume is reserved at Cinder, the answer is given, the host goes on.
    pub fn finish_attach(&mut self, asked: &Asked<'_>, ticket: Ticket) -> Answer {
        let Ticket { number, server, volume } = ticket;
        let outcome = self.hosts.operations.remove(&number).and_then(|known| known.outcome);
        let gone = || Refusal::missing(format!("Instance {server} could not be found."));
        outcome.ok_or_else(gone)??;
        let volume = &volume;
        let reserved = self.storage.reserve(volume, &server).map_err(|refusal| {
            if let Some(server) = self.compute.server_mut(&server) {
                server.rows.retain(|row| row.volume != *volume);
            }
            Refusal::bad(format!("Invalid input received: {}", quoted(asked, &refusal)))
        });
        let attachment = reserved?;
        let now = self.clock.unix();
        if let Some(volume) = self.storage.volume_mut(volume) {
            volume.updated = now;
        }
        let known = self.compute.server_mut(&server).ok_or_else(gone)?;
        let row = known.row_mut(volume).ok_or_else(gone)?;
        row.attachment = Some(attachment.clone());
        let shown = json!({
            "id": volume, "serverId": server, "volumeId": volume, "device": row.device,
        });
        // A server without a host keeps the reservation until it is unshelved.
        if known.vm_state != "shelved_offloaded" {
            self.begin_action(asked, &server, "attach_volume");
            self.enqueue(operation(asked, &server, volume, Work::Attach { attachment }));
        }
        Ok(Reply::ok(json!({"volumeAttachment": shown})))
    }

    /// A detach: all checks, Cinder is told, the answer is given, the host goes on.
    pub fn detach(&mut self, asked: &Asked<'_>, server: &str, volume: &str) -> Answer {
        asked.writer("os_compute_api:os-volumes-attachments:delete")?;
        let known = self.server_asked(asked, server)?;
        check_shelved(asked, known, "detach_volume")?;
        self.volume_asked(asked, volume)?;
        let Some(row) = known.row(volume) else { return Err(not_attached(server, volume)) };
        if row.device.ends_with("da") {
            return Err(Refusal::bad("Cannot detach a root device volume"));
        }
        check_state(asked, known, "detach_volume")?;
        // Without a host Nova only tidies up, whatever Cinder calls the volume.
        if known.vm_state == "shelved_offloaded" {
            let attachment = known.row(volume).and_then(|row| row.attachment.clone());
            self.begin_action(asked, server, "detach_volume");
            self.end_action(server, &asked.id, "Success");
            if let Some(server) = self.compute.server_mut(server) {
                server.rows.retain(|row| row.volume != *volume);
            }
            self.storage.drop_attachment(volume, &attachment.unwrap_or_default());
            return Ok(Reply::empty(202));
        }
        self.storage.begin_detaching(volume).map_err(|refusal| {
            let text = quoted(asked, &refusal);
            Refusal::bad(format!("Invalid volume: Invalid input received: {text}"))
        })?;
        self.begin_action(asked, server, "detach_volume");
        self.enqueue(operation(asked, server, volume, Work::Detach));
        Ok(Reply::empty(202))
    }
}

fn operation(asked: &Asked<'_>, server: &str, volume: &str, work: Work) -> Operation {
    Operation {
        server: server.to_owned(),
        volume: volume.to_owned(),
        work,
        request: asked.id.clone(),
        outcome: None,
        recorded: Duration::ZERO,
    }
}

/// Cinder's words as Nova's client repeats them.
fn quoted(asked: &Asked<'_>, refusal: &Refusal) -> String {
    let Refusal { code, message, .. } = refusal;
    format!("{message} (HTTP {code}) (Request-ID: {})", asked.id)
}

/// The 404 of a pair that Nova does not know (B23, H12).
pub fn not_attached(server: &str, volume: &str) -> Refusal {
    Refusal::missing(format!("Instance {server} is not attached to volume {volume}"))
}

/// Whether a server may be worked on: not locked, in a fit state, not busy (E, H1, N4).
fn check_state(asked: &Asked<'_>, server: &Server, what: &str) -> Result<(), Refusal> {
    check_shelved(asked, server, what)?;
    if server.locked && !asked.token()?.is_admin() {
        return Err(Refusal::conflict(format!("Instance {} is locked", server.id)));
    }
    let states = ["active", "paused", "stopped", "resized", "soft-delete", "shelved"];
    let fit = states.contains(&server.vm_state.as_str()) || server.vm_state == "shelved_offloaded";
    if !fit {
        return Err(wrong_state(server, what, "vm_state", &server.vm_state));
    }
    match &server.task_state {
        Some(task) => Err(wrong_state(server, what, "task_state", task)),
        None => Ok(()),
    }
}

/// Shelved servers may be worked on from 2.20 on (E7a to E7c).
fn check_shelved(asked: &Asked<'_>, server: &Server, what: &str) -> Result<(), Refusal> {
    if server.vm_state.starts_with("shelved") && asked.minor < 20 {
        return Err(wrong_state(server, what, "vm_state", &server.vm_state));
    }
    Ok(())
}

fn wrong_state(server: &Server, what: &str, kind: &str, state: &str) -> Refusal {
    let id = &server.id;
    Refusal::conflict(format!("Cannot '{what}' instance {id} while it is in {kind} {state}"))
}
