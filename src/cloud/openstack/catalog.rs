//! Where the services are: the catalog that comes with a token, by region.

use crate::model::cloud::access::{Access, Interface};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the block service is called, the exact word first.
const BLOCK: [&str; 3] = ["block-storage", "volumev3", "block-store"];

/// Both services of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegionEndpoints {
    /// Its name; nothing where the catalog has none.
    pub(super) region: Option<String>,
    pub(super) compute: String,
    pub(super) volume: String,
}

/// The configured region alone; where none is configured, all that have both services.
pub(super) fn places(access: &Access, catalog: &[Value]) -> Result<Vec<RegionEndpoints>, String> {
    if access.region.is_some() {
        return place(access.interface, access.region.as_deref(), catalog).map(|own| vec![own]);
    }
    let regions = regions(access.interface, &["compute"], catalog);
    let with_both = |region: &String| place(access.interface, Some(region), catalog).ok();
    let places: Vec<_> = regions.iter().filter_map(with_both).collect();
    // A catalog without regions, or without a service: the message says what is missing.
    if places.is_empty() {
        return place(access.interface, None, catalog).map(|only| vec![only]);
    }
    Ok(places)
}

fn place(
    interface: Interface,
    region: Option<&str>,
    catalog: &[Value],
) -> Result<RegionEndpoints, String> {
    let compute = endpoint(interface, region, &["compute"], catalog)?;
    let volume = endpoint(interface, region, &BLOCK, catalog)?;
    let named = compute["region"].as_str().or_else(|| compute["region_id"].as_str());
    Ok(RegionEndpoints {
        region: region.or(named).map(str::to_owned),
        compute: url(compute)?,
        volume: url(volume)?,
    })
}

fn url(endpoint: &Value) -> Result<String, String> {
    let url = endpoint["url"].as_str().ok_or("an address in the catalog is no text")?;
    Ok(url.trim_end_matches('/').to_owned())
}

/// The addresses of the first of these types that the catalog has.
fn addresses<'a>(interface: Interface, types: &[&str], catalog: &'a [Value]) -> Vec<&'a Value> {
    let of_type = |wanted: &&str| -> Vec<&Value> {
        let services = catalog.iter().filter(|service| service["type"] == **wanted);
        let all = services.flat_map(|one| one["endpoints"].as_array().into_iter().flatten());
        all.filter(|endpoint| endpoint["interface"] == interface.word()).collect()
    };
    types.iter().map(of_type).find(|found| !found.is_empty()).unwrap_or_default()
}

fn regions(interface: Interface, types: &[&str], catalog: &[Value]) -> Vec<String> {
    let all = addresses(interface, types, catalog);
    let mut names: Vec<_> =
        all.iter().filter_map(|e| e["region"].as_str().map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The one address of the region; without a region the only one there is.
fn endpoint<'a>(
    interface: Interface,
    region: Option<&str>,
    types: &[&str],
    catalog: &'a [Value],
) -> Result<&'a Value, String> {
    let found = addresses(interface, types, catalog);
    if found.is_empty() {
        let (types, interface) = (types.join(" or "), interface.word());
        return Err(format!("the cloud's catalog has no {types} with a {interface} address"));
    }
    let is_ours = |endpoint: &&&Value| {
        region.is_none_or(|region| endpoint["region"] == region || endpoint["region_id"] == region)
    };
    let ours: Vec<_> = found.iter().filter(is_ours).collect();
    if let [one] = ours.as_slice() {
        return Ok(one);
    }
    let regions = regions(interface, types, catalog).join(", ");
    let what = types.first().copied().unwrap_or_default();
    Err(match region {
        Some(region) if ours.is_empty() => format!(
            "the cloud's catalog has no {what} in region {region}; its regions are {regions}"
        ),
        _ => format!("the cloud's catalog has {what} in several regions ({regions}): name one"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::access::Written;
    use serde_json::json;

    fn access(more: &str) -> Access {
        let text =
            format!("[Global]\nauth-url=http://k\nuser-id=u\nproject-id=p\npassword=s\n{more}");
        Written::from_cloud_conf(&text, "f").unwrap().resolve("f").unwrap()
    }

    fn catalog() -> Vec<Value> {
        let at = |region: &str, interface: &str, url: &str| json!({"region": region, "region_id": region, "interface": interface, "url": url});
        vec![
            json!({"type": "compute", "endpoints": [at("A", "public", "http://c/a/"), at("B", "public", "http://c/b"), at("A", "internal", "http://ci")]}),
            json!({"type": "volumev3", "endpoints": [at("A", "public", "http://v3/a"), at("A", "internal", "http://i"), at("B", "public", "http://v3/b")]}),
        ]
    }

    #[test]
    fn addresses_are_chosen_by_type_interface_and_region() {
        let pick = |more: &str| places(&access(more), &catalog());
        let found = pick("region=A").unwrap();
        assert_eq!(
            (found[0].compute.as_str(), found[0].volume.as_str()),
            ("http://c/a", "http://v3/a")
        );
        assert_eq!(found.len(), 1, "a configured region is the only one");
        let found = pick("os-endpoint-type=internal").unwrap();
        assert_eq!((found.len(), found[0].volume.as_str()), (1, "http://i"));
        assert_eq!(found[0].region.as_deref(), Some("A"));
        let found = pick("").unwrap();
        let regions: Vec<_> = found.iter().filter_map(|place| place.region.as_deref()).collect();
        assert_eq!(regions, ["A", "B"]);
        assert!(pick("region=C").unwrap_err().contains("no compute in region C"));
        assert!(pick("os-endpoint-type=admin").unwrap_err().contains("admin"));
    }
}
