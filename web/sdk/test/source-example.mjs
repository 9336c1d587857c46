import { LeaseManager, LeaseConflictError } from 'cowrite';

const mgr = new LeaseManager('https://api.llmtxt.my', 'llmtxt_myapikey');

try {
  const lease = await mgr.acquire('my-doc', 'intro', 60, 'Rewriting introduction');

  // Keep renewing automatically 10s before expiry
  mgr.startAutoRenew(10);

  // ... do editing work ...

  await mgr.release();
} catch (err) {
  if (err instanceof LeaseConflictError) {
    console.log(`Section held by ${err.holder} until ${err.expiresAt}`);
    // Back off or notify the user
  }
}
