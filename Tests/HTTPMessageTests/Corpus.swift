/// Valid requests, one after the other or alone.
enum Corpus {
    static let valid: [String] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /v1/identify?a=b&c=%20d HTTP/1.1\r\nHost: a.example:8080\r\nAccept: */*\r\n\r\n",
        "GET http://a.example/path?x=1 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /x HTTP/1.0\r\n\r\n",
        "GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade , close\r\n\r\n",
        "POST /v1/identify HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST /empty HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "PUT /x HTTP/1.1\r\nHost: a\r\ntransfer-encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n1;name=\"v\"\r\n!\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: yes\r\nOther: no\r\n\r\n",
        "PATCH /x HTTP/1.1\r\nHost: a\r\nX-Tab:\tvalue\twith tabs\t \r\nX-Empty:\r\nX-High: caf\u{E9}\r\n\r\n",
        "DELETE /a/b/../c//d HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
            + "chunked\r\n\r\n2\r\nde\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "PROPFIND /x HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
}
