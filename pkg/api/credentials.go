// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

const (
	leastToken = 16   // characters: fewer can be guessed
	mostToken  = 4096 // bytes of its file
)

// TokenFile is where the token is in the state directory: no domain has a name like that.
const TokenFile = "api.token"

// OwnToken returns the token in the state directory, which is made if there is none, and the path of its file.
func OwnToken() (token, path string, err error) {
	if err := statedir.Make(statedir.Root()); err != nil {
		return "", "", err
	}
	path = filepath.Join(statedir.Root(), TokenFile)
	token, err = Token(path)
	return token, path, err
}

// Token reads the token in a file, which is made with a new one if there is none. Nobody but this user and root may
// be able to read it.
func Token(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		token := rand.Text()
		_, err = file.WriteString(token + "\n")
		return token, errors.Join(err, file.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make token: %w", err)
	}
	text, err := readSecret(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(text)
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("token in %s: use at least %d characters, without blanks", path, leastToken)
	}
	return token, nil
}

// readSecret reads a file that others may not read.
func readSecret(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	switch {
	case !about.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file", path)
	case about.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s can be read by others (mode %04o): chmod 600 %s", path, about.Mode().Perm(), path)
	case !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to another user", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, mostToken))
	return string(text), err
}

const (
	certificateFile = "api.crt"
	keyFile         = "api.key"
	certificateLife = 2 * 365 * 24 * time.Hour
	leastLife       = 30 * 24 * time.Hour // that is left of one that is used again
)

// SelfSigned is a certificate that nobody vouches for: clients know it by its fingerprint. It is kept in dir, and
// made anew where it does not have these names and addresses, or ends soon.
func SelfSigned(dir string, names []string) (tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
	if err == nil && serves(c.Leaf, names) {
		return c, nil
	}
	certificate, key, err := newCertificate(names)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	// A key without its certificate is made anew.
	err = errors.Join(renameio.WriteFile(filepath.Join(dir, keyFile), key, 0o600),
		renameio.WriteFile(filepath.Join(dir, certificateFile), certificate, 0o600))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("keep certificate: %w", err)
	}
	return tls.X509KeyPair(certificate, key)
}

func serves(c *x509.Certificate, names []string) bool {
	for _, name := range names {
		if c.VerifyHostname(name) != nil {
			return false
		}
	}
	return time.Until(c.NotAfter) > leastLife
}

func newCertificate(names []string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "radar"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

// Fingerprint is by what a person compares a certificate: the SHA-256 of it, as browsers show it.
func Fingerprint(c tls.Certificate) string {
	sum := sha256.Sum256(c.Certificate[0])
	var b strings.Builder
	for i, v := range sum {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02X", v)
	}
	return b.String()
}
