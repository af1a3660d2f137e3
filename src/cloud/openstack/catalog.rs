//! Where the services are: the catalog that comes with a token, by region.

use crate::model::cloud::access::{Access, Interface};
use reqwest::Url;
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
    /// Why the region cannot be asked: its entries in the catalog do not fit.
    #[serde(default)]
    pub(super) unfit: Option<String>,
}

/// The configured region alone; where none is configured, all that have both services.
pub(super) fn places(access: &Access, catalog: &[Value]) -> Result<Vec<RegionEndpoints>, String> {
    if access.region.is_some() {
        return place(access.interface, access.region.as_deref(), catalog).map(|own| vec![own]);
    }
    let interface = access.interface;
    // A region without one of the services has no volume of a server: it is none of ours.
    let has_volumes =
        |region: &String| !addresses(interface, &BLOCK, Some(region), catalog).is_empty();
    let all = regions(interface, &["compute"], catalog).into_iter().filter(has_volumes);
    // One that has both, and cannot be asked, may have what is looked for: that is told.
    let mut places: Vec<_> = all
        .map(|region| {
            place(interface, Some(&region), catalog).unwrap_or_else(|why| unfit(Some(region), why))
        })
        .collect();
    let of_compute = addresses(interface, &["compute"], None, catalog);
    if !places.is_empty() && of_compute.iter().any(|endpoint| region_of(endpoint).is_none()) {
        let why = "an address of compute in the cloud's catalog names no region";
        places.push(unfit(None, why.to_owned()));
    }
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
    Ok(RegionEndpoints {
        region: region.or(region_of(compute)).map(str::to_owned),
        compute: url(compute, "compute")?,
        volume: url(volume, "block storage")?,
        unfit: None,
    })
}

fn unfit(region: Option<String>, why: String) -> RegionEndpoints {
    RegionEndpoints { region, compute: String::new(), volume: String::new(), unfit: Some(why) }
}

fn region_of(endpoint: &Value) -> Option<&str> {
    endpoint["region"].as_str().or_else(|| endpoint["region_id"].as_str())
}

/// An address to which a path can be added. It is not quoted where it is wrong: it may be anything.
fn url(endpoint: &Value, what: &str) -> Result<String, String> {
    let text = endpoint["url"].as_str().unwrap_or_default().trim_end_matches('/');
    let is_fit = Url::parse(text).is_ok_and(|url| {
        let is_plain = url.query().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain
    });
    if !is_fit {
        return Err(format!("the address of {what} in the cloud's catalog is no http address"));
    }
    Ok(text.to_owned())
}

/// The addresses of the first of these types that the catalog has, in one region or in all.
fn addresses<'a>(
    interface: Interface,
    types: &[&str],
    region: Option<&str>,
    catalog: &'a [Value],
) -> Vec<&'a Value> {
    let is_ours = |endpoint: &&Value| {
        endpoint["interface"] == interface.word()
            && region.is_none_or(|name| endpoint["region"] == name || endpoint["region_id"] == name)
    };
    let of_type = |wanted: &&str| -> Vec<&Value> {
        let services = catalog.iter().filter(|service| service["type"] == **wanted);
        let all = services.flat_map(|one| one["endpoints"].as_array().into_iter().flatten());
        all.filter(is_ours).collect()
    };
    types.iter().map(of_type).find(|found| !found.is_empty()).unwrap_or_default()
}

fn regions(interface: Interface, types: &[&str], catalog: &[Value]) -> Vec<String> {
    let all = addresses(interface, types, None, catalog);
    let mut names: Vec<_> =
        all.into_iter().filter_map(|e| region_of(e).map(str::to_owned)).collect();
    names.sort();
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
    if addresses(interface, types, None, catalog).is_empty() {
        let (types, interface) = (types.join(" or "), interface.word());
        return Err(format!("the cloud's catalog has no {types} with a {interface} address"));
    }
    let ours = addresses(interface, types, region, catalog);
    if let [one] = ours.as_slice() {
        return Ok(one);
    }
    let regions = regions(interface, types, catalog).join(", ");
    let what = types.first().copied().unwrap_or_default();
    Err(match region {
        Some(region) if ours.is_empty() => format!(
            "the cloud's catalog has no {what} in region {region}; its regions are {regions}"
        ),
        Some(region) => {
            format!("the cloud's catalog has several addresses of {what} in region {region}")
        }
        None => format!("the cloud's catalog has {what} in several regions ({regions}): name one"),
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

    #[test]
    fn a_region_whose_entries_do_not_fit_is_told_and_not_left_out() {
        let compute =
            |region: &str, url: Value| json!({"region": region, "interface": "public", "url": url});
        for (url, why) in [
            (json!("ftp://c/b"), "no http address"),
            (json!(7), "no http address"),
            (json!("//c/b"), "no http address"),
            (json!("https://c/b?x="), "no http address"),
        ] {
            let mut catalog = catalog();
            catalog[0]["endpoints"][1] = compute("B", url);
            let found = places(&access(""), &catalog).unwrap();
            assert_eq!((found.len(), &found[0].unfit), (2, &None));
            assert_eq!(found[1].region.as_deref(), Some("B"));
            assert!(found[1].unfit.as_ref().unwrap().contains(why), "{found:?}");
            assert!(places(&access("region=B"), &catalog).unwrap_err().contains(why));
        }
        let mut twice = catalog();
        twice[0]["endpoints"].as_array_mut().unwrap().push(compute("B", json!("http://c/2")));
        let found = places(&access(""), &twice).unwrap();
        assert!(
            found[1].unfit.as_ref().unwrap().contains("several addresses of compute in region B")
        );
        let mut nameless = catalog();
        nameless[0]["endpoints"][1]["region"] = json!(7);
        nameless[0]["endpoints"][1]["region_id"] = json!(null);
        let found = places(&access(""), &nameless).unwrap();
        assert!(found[1].unfit.as_ref().unwrap().contains("names no region"), "{found:?}");
    }

    #[test]
    fn each_region_has_its_own_word_for_volumes() {
        let mut catalog = catalog();
        let at = json!({"region": "B", "interface": "public", "url": "http://v/b"});
        catalog[1]["endpoints"].as_array_mut().unwrap().retain(|one| one["region"] != "B");
        catalog.push(json!({"type": "block-storage", "endpoints": [at]}));
        let found = places(&access(""), &catalog).unwrap();
        let volumes: Vec<_> = found.iter().map(|place| place.volume.as_str()).collect();
        assert_eq!(volumes, ["http://v3/a", "http://v/b"]);
    }

    #[test]
    fn a_region_without_volumes_is_none_of_ours() {
        let mut catalog = catalog();
        catalog[1]["endpoints"].as_array_mut().unwrap().retain(|one| one["region"] != "B");
        let found = places(&access(""), &catalog).unwrap();
        assert_eq!((found.len(), found[0].region.as_deref()), (1, Some("A")));
    }
}
