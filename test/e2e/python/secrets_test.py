"""The Secret classes of the unmodified Python client against a real Warren."""

import asyncio
import unittest

from e2b import AsyncSecret, InvalidArgumentException, Secret, SecretException, SecretNotFoundException

VALUE = "python-value-not-to-be-seen"


class Secrets(unittest.TestCase):
    def test_a_secret_is_made_shown_updated_and_destroyed(self):
        made = Secret.create("Py-Key", VALUE, metadata={"team": "é"})
        self.assertEqual((made.name, made.version, made.metadata), ("py-key", 1, {"team": "é"}))
        self.assertTrue(made.secret_id.startswith("sec_"))
        self.assertEqual(Secret.get_info("PY-key"), made)
        self.assertEqual(Secret.get_info(made.secret_id), made)
        kept = Secret.update("py-key", VALUE + " 2")
        self.assertEqual((kept.version, kept.metadata), (2, {"team": "é"}))
        emptied = Secret.update(made.secret_id, VALUE + " 3", metadata={})
        self.assertEqual((emptied.version, emptied.metadata), (3, {}))
        self.assertGreaterEqual(emptied.updated_at, made.updated_at)
        self.assertEqual(emptied.created_at, made.created_at)
        self.assertTrue(Secret.exists("py-key"))
        self.assertTrue(Secret.destroy("py-key"))
        self.assertFalse(Secret.destroy("py-key"))
        self.assertFalse(Secret.exists(made.secret_id))

    def test_failures_have_their_own_classes_and_tell_no_value(self):
        for call in (Secret.get_info, lambda name: Secret.update(name, VALUE)):
            with self.assertRaises(SecretNotFoundException):
                call("nothing")
        Secret.create("twice", VALUE)
        cases = [("TWICE", VALUE, "409"), ("no name", VALUE, "400"), ("a", VALUE + "\n", "400"), ("sec_a", VALUE, "400")]
        for name, value, status in cases:
            with self.assertRaises(SecretException) as failed:
                Secret.create(name, value)
            self.assertTrue(str(failed.exception).startswith(status), failed.exception)
            self.assertNotIn(VALUE, str(failed.exception))
        Secret.destroy("twice")

    def test_pages_hold_every_secret_once(self):
        names = {f"page-{at}" for at in range(5)}
        for name in names:
            Secret.create(name, VALUE)
        pages = Secret.list(limit=2)
        found = []
        while pages.has_next:
            found += [secret.name for secret in pages.next_items()]
        self.assertEqual(sorted(name for name in found if name in names), sorted(names))
        for name in names:
            Secret.destroy(name)

    def test_the_placeholder_is_made_from_the_name(self):
        self.assertEqual(Secret.fill("py-key"), "${e2b.secrets.py-key}")
        with self.assertRaises(InvalidArgumentException):
            Secret.fill("{")


class AsyncSecrets(unittest.TestCase):
    def test_the_asynchronous_class_does_the_same(self):
        async def life():
            made = await AsyncSecret.create("async-key", VALUE)
            updated = await AsyncSecret.update(made.secret_id, VALUE)
            self.assertEqual(updated.version, 2)
            pages = AsyncSecret.list()
            listed = [secret.name for secret in await pages.next_items()]
            self.assertIn("async-key", listed)
            self.assertTrue(await AsyncSecret.destroy("async-key"))
            self.assertFalse(await AsyncSecret.exists("async-key"))

        asyncio.run(life())

    def test_of_creates_at_once_one_succeeds(self):
        async def race():
            creates = [AsyncSecret.create("race", VALUE) for _ in range(8)]
            results = await asyncio.gather(*creates, return_exceptions=True)
            failed = [result for result in results if isinstance(result, SecretException)]
            self.assertEqual(len(failed), 7)
            await AsyncSecret.destroy("race")

        asyncio.run(race())


if __name__ == "__main__":
    unittest.main()
