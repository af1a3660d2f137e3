//! The catalog: where the services are, by region and interface.

use super::super::ids;
use super::super::world::World;
use serde_json::{Value, json};

/// A service that the catalog offers.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Its type, such as `volumev3`.
    pub kind: String,
    pub name: String,
    /// The path behind address, region and interface; a project follows where Cinder wants one.
    pub path: String,
    /// The interfaces that it has.
    pub interfaces: Vec<String>,
}

fn all_interfaces() -> Vec<String> {
    ["internal", "admin", "public"].map(str::to_owned).to_vec()
}

/// What the recorded catalog offers, as far as a driver looks for it (A3).
pub fn recorded() -> Vec<Offer> {
    let offers = [
        ("volumev3", "cinderv3", "volume/v3"),
        ("compute", "nova", "compute/v2.1"),
        ("block-storage", "cinder", "volume/v3"),
    ];
    let offer = |(kind, name, path): (&str, &str, &str)| Offer {
        kind: kind.to_owned(),
        name: name.to_owned(),
        path: path.to_owned(),
        interfaces: all_interfaces(),
    };
    offers.map(offer).to_vec()
}

impl World {
    /// The catalog for a project, with the server's address in front.
    pub fn catalog(&self, base: &str, project: &str) -> Value {
        let offers = self.identity.offers.iter();
        offers
            .map(|offer| {
                let endpoints = self.endpoints(base, offer, project);
                let Offer { kind, name, .. } = offer;
                json!({"endpoints": endpoints, "id": ids::hex(), "type": kind, "name": name})
            })
            .collect()
    }

    fn endpoints(&self, base: &str, offer: &Offer, project: &str) -> Vec<Value> {
        let mut endpoints = Vec::new();
        for region in &self.settings.regions {
            for interface in &offer.interfaces {
                let address = self.settings.addresses.get(region);
                let mut url = address.map_or(base, String::as_str).to_owned();
                if address.is_none() && *region != self.home_region() {
                    url.push_str(&format!("/{region}"));
                }
                if interface != "public" {
                    url.push_str(&format!("/{interface}"));
                }
                url.push_str(&format!("/{}", offer.path));
                if offer.path.starts_with("volume") {
                    url.push_str(&format!("/{project}"));
                }
                endpoints.push(json!({
                    "id": ids::hex(),
                    "interface": interface,
                    "region_id": region,
                    "url": url,
                    "region": region,
                }));
            }
        }
        endpoints
    }
}
