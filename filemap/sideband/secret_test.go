package sideband

import "testing"

func TestSurvivesSecrets(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0-27-amd64":            true,
		"5.10.0-46-cloud-amd64":      true,
		"5.13.0":                     true,
		"5.14.0-570.el9.x86_64":      false,
		"5.15.179":                   false,
		"5.15.180-lts":               true,
		"5.15.0-151-generic":         false,
		"6.1.131":                    false,
		"6.1.132-generic":            true,
		"6.1.0-50-cloud-amd64":       false,
		"6.6.99-08726-g28eab9a1f61e": false,
		"6.6.87.2-microsoft-WSL2":    false,
		"6.8.0-90-generic":           false,
		"6.11.11":                    false,
		"6.12.0-rc3":                 false,
		"6.12.0":                     true,
		"6.12.107+deb13-cloud-amd64": true,
		"6.18.44":                    true,
		"7.0.0-rc1":                  true,
		"7.3.4+deb13-amd64":          true,
		"":                           false,
		"x":                          false,
		"6":                          false,
		"6.x":                        false,
		"99999999999999999999.1":     false,
	} {
		if got := survivesSecrets(release); got != want {
			t.Errorf("%q: %v, want %v", release, got, want)
		}
	}
}

// TestNoIDs: without the kernel's build IDs there is a side band all the same.
func TestNoIDs(t *testing.T) {
	o := Options{RingSize: DefaultRing, noIDs: true}
	if o.event(0, o.RingSize, o.features(ladder[0])).BuildIDs {
		t.Error("the kernel is asked for build IDs")
	}
	o.noIDs = false
	if !o.event(0, o.RingSize, o.features(ladder[0])).BuildIDs {
		t.Error("the kernel is not asked for build IDs")
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add("6.12.107+deb13-cloud-amd64")
	f.Add("6.12.0-rc3")
	f.Fuzz(func(t *testing.T, release string) {
		if major, minor, patch, _ := parseRelease(release); major < 0 || minor < 0 || patch < 0 {
			t.Errorf("%d.%d.%d", major, minor, patch)
		}
	})
}
