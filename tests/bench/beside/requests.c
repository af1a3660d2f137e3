/* An attach or a detach by libcurl, with a token that is there already: the bare requests (`raw`), or those of
 * cinder-csi in its order and with its waits (`csi`).
 *
 *   requests raw|csi attach|detach URL PROJECT TOKEN SERVER VOLUME
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CURL *client;
static struct curl_slist *headers;
static const char *url, *project, *server, *volume;
static char body[1 << 16];
static size_t length;

static size_t take(char *data, size_t size, size_t count, void *unused)
{
    size_t all = size * count;

    (void)unused;
    if (length + all >= sizeof body)
        return 0;
    memcpy(body + length, data, all);
    length += all;
    body[length] = '\0';
    return all;
}

/* The status of the answer, which is in `body`. */
static long ask(const char *method, const char *path, const char *sent)
{
    char whole[1024];
    long status = 0;

    snprintf(whole, sizeof whole, "%s%s", url, path);
    length = 0;
    body[0] = '\0';
    curl_easy_setopt(client, CURLOPT_URL, whole);
    curl_easy_setopt(client, CURLOPT_CUSTOMREQUEST, method);
    if (sent)
        curl_easy_setopt(client, CURLOPT_POSTFIELDS, sent);
    else
        curl_easy_setopt(client, CURLOPT_HTTPGET, 1L);
    if (curl_easy_perform(client) != CURLE_OK) {
        fprintf(stderr, "%s %s: no answer\n", method, whole);
        exit(1);
    }
    curl_easy_getinfo(client, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, body);
    exit(1);
}

static void look_at_volume(void)
{
    char path[512];

    snprintf(path, sizeof path, "/volume/v3/%s/volumes/%s", project, volume);
    must(ask("GET", path, NULL) == 200, "the volume");
}

static void look_at_server(void)
{
    char path[512];

    snprintf(path, sizeof path, "/compute/v2.1/servers/%s", server);
    must(ask("GET", path, NULL) == 200, "the server");
}

/* Whether the volume, as it was just answered, is so. */
static int is(const char *status)
{
    char close[64], wide[64];

    snprintf(close, sizeof close, "\"status\":\"%s\"", status);
    snprintf(wide, sizeof wide, "\"status\": \"%s\"", status);
    return strstr(body, close) || strstr(body, wide);
}

/* Whether it is attached: a volume that is being attached may name its server already. */
static int has_server(void)
{
    const char *list = strstr(body, "\"attachments\"");
    const char *end = list ? strchr(list, ']') : NULL;
    const char *found = list ? strstr(list, server) : NULL;

    return found && end && found < end && !is("attaching") && !is("reserved");
}

static void attach(void)
{
    char path[512], sent[256];

    snprintf(path, sizeof path, "/compute/v2.1/servers/%s/os-volume_attachments", server);
    snprintf(sent, sizeof sent, "{\"volumeAttachment\":{\"volumeId\":\"%s\"}}", volume);
    must(ask("POST", path, sent) == 200, "attach");
}

static long attachment(const char *method)
{
    char path[512];

    snprintf(path, sizeof path, "/compute/v2.1/servers/%s/os-volume_attachments/%s", server, volume);
    return ask(method, path, NULL);
}

static void detach(void)
{
    must(attachment("DELETE") == 202, "detach");
}

static void rest(double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

static void raw_attach(void)
{
    attach();
    for (look_at_volume(); !is("in-use"); look_at_volume())
        rest(0.05);
}

static void raw_detach(void)
{
    detach();
    for (look_at_volume(); !is("available"); look_at_volume())
        rest(0.05);
    while (attachment("GET") != 404)
        rest(0.02);
}

static void wait_until(int attached)
{
    double seconds = 1.0;

    for (look_at_volume(); has_server() != attached; look_at_volume()) {
        rest(seconds);
        seconds *= 1.2;
    }
}

static void csi_attach(void)
{
    look_at_volume();
    look_at_server();
    look_at_volume();
    attach();
    wait_until(1);
    look_at_volume();
}

static void csi_detach(void)
{
    look_at_server();
    look_at_volume();
    detach();
    wait_until(0);
}

int main(int count, char **words)
{
    char header[1024];
    int is_csi, is_attach;

    if (count != 8)
        return 2;
    is_csi = strcmp(words[1], "csi") == 0;
    is_attach = strcmp(words[2], "attach") == 0;
    url = words[3];
    project = words[4];
    server = words[6];
    volume = words[7];
    curl_global_init(CURL_GLOBAL_DEFAULT);
    client = curl_easy_init();
    if (!client)
        return 1;
    snprintf(header, sizeof header, "X-Auth-Token: %s", words[5]);
    headers = curl_slist_append(NULL, header);
    headers = curl_slist_append(headers, "Content-Type: application/json");
    curl_easy_setopt(client, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(client, CURLOPT_NOPROXY, "*");
    if (is_csi)
        is_attach ? csi_attach() : csi_detach();
    else
        is_attach ? raw_attach() : raw_detach();
    curl_slist_free_all(headers);
    curl_easy_cleanup(client);
    return 0;
}
